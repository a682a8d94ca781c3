"""What a process takes from its environment when not told otherwise: configuration, store, and who acts."""

import getpass
import os
from collections.abc import Mapping
from pathlib import Path

from aijobs.core.errors import UsageError

CONFIG_FILE = "aijobs.yaml"
LONGEST_ACTOR = 200
"""Characters."""


def config_path(named: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    """*named*, else AIJOBS_CONFIG, else ./aijobs.yaml if it is there; None means the defaults."""
    path = named or environ.get("AIJOBS_CONFIG")
    if path:
        return Path(path).expanduser()
    return Path(CONFIG_FILE) if Path(CONFIG_FILE).exists() else None


def database_url(named: str | None, environ: Mapping[str, str]) -> str | None:
    """*named*, else AIJOBS_DATABASE; None leaves it to the configuration."""
    return named or environ.get("AIJOBS_DATABASE") or None


def actor(named: str | None, environ: Mapping[str, str]) -> str:
    """Who acts: *named*, else AIJOBS_ACTOR, else the login name. Raises UsageError for what is no name."""
    name = (named or environ.get("AIJOBS_ACTOR") or _login_name()).strip()
    if not name or len(name) > LONGEST_ACTOR or not name.isprintable():
        raise UsageError(f"the actor must be 1 to {LONGEST_ACTOR} printable characters", hint="--actor NAME")
    return name


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return f"uid-{os.getuid()}"


def allow_many_files() -> None:
    """Raise this process's limit on open files as far as the system lets it: each call under way is one.

    The usual soft limit of 1024 ends a worker of a thousand slots in the middle of its calls.
    """
    import contextlib
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # then the soft limit stays, as it was
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
