"""Write a configuration file and read it, or its faults."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aijobs.core.config import load
from aijobs.core.errors import ConfigError, ConfigFault
from aijobs.core.settings import Settings

SIGNING_SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file in a folder of the test's own."""

    path: Path
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, content: str | bytes) -> "ConfigFile":
        """Make *content* the file's."""
        self.path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self

    def load(self, content: str | bytes, *, database: str | None = None, **environ: str) -> Settings:
        """The settings in *content*, with these environment variables."""
        self.write(content)
        return load(self.path, environ={**self.environ, **environ}, database=database, thorough=True)

    def faults(
        self, content: str | bytes, environ: Mapping[str, str] | None = None
    ) -> tuple[ConfigFault, ...]:
        """The faults in *content*; () if it has none."""
        self.write(content)
        return faults_of(self.path, environ or self.environ)

    def said(self, content: str | bytes, **environ: str) -> list[str]:
        """The faults as lines, `line:column: path: message (hint)`, without the file's name."""
        prefix = f"{self.path}:"
        return [str(fault).removeprefix(prefix).lstrip() for fault in self.faults(content, environ)]


def faults_of(path: Path, environ: Mapping[str, str] | None = None) -> tuple[ConfigFault, ...]:
    """The faults of the file at *path*; () if it has none."""
    try:
        load(path, environ=environ or {}, thorough=True)
    except ConfigError as error:
        return error.faults
    return ()
