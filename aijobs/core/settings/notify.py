"""The notification targets: who is told that a job ended, and how."""

from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from aijobs.core.settings.fields import (
    Duration,
    Flag,
    Headers,
    Interval,
    Section,
    SigningSecrets,
    Url,
)

_ONLY_FOR = MappingProxyType(
    {
        "url": "webhook",
        "secret": "webhook",
        "headers": "webhook",
        "allow_private": "webhook",
        "command": "command",
        "level": "log",
    }
)


class NotifySettings(Section):
    """One target. Which of these keys apply depends on its kind."""

    kind: Annotated[
        Literal["webhook", "command", "log"],
        Field(description="how it is told: by HTTP, by a program, by a line in the log"),
    ]
    on: Annotated[
        tuple[Literal["succeeded", "dead_letter", "cancelled"], ...],
        Field(description="which ends of jobs are told", min_length=1),
    ] = ("succeeded", "dead_letter", "cancelled")
    url: Annotated[Url | None, Field(description="webhook: where to")] = None
    secret: Annotated[
        SigningSecrets, Field(description="webhook: signs it (whsec_...); a list while it is rotated")
    ] = ()
    headers: Annotated[
        Headers,
        Field(description="webhook: more headers; their values are never shown", default_factory=dict),
    ]
    allow_private: Annotated[
        Flag, Field(description="webhook: addresses inside your own network are allowed")
    ] = False
    command: Annotated[
        tuple[str, ...], Field(description="command: program and arguments; the event is JSON on its stdin")
    ] = ()
    level: Annotated[Literal["info", "warning", "error"], Field(description="log: the level of the line")] = (
        "info"
    )
    timeout: Annotated[
        Duration, Field(description="how long one delivery may take, as a whole", le=timedelta(minutes=10))
    ] = timedelta(seconds=10)
    give_up_after: Annotated[Interval, Field(description="how long a delivery is tried again")] = timedelta(
        days=3
    )

    @property
    def foreign_keys(self) -> frozenset[str]:
        """The options that mean nothing to this kind."""
        return frozenset(key for key, kind in _ONLY_FOR.items() if kind != self.kind)

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        strange = sorted(self.foreign_keys & self.model_fields_set)
        if strange:
            raise ValueError(f"{', '.join(strange)}: not for kind {self.kind}")
        if self.kind == "webhook" and not self.url:
            raise ValueError("kind webhook needs `url`")
        if self.kind == "command" and not (self.command and self.command[0]):
            raise ValueError("kind command needs `command`, a list: [program, argument, ...]")
        if any("\0" in part for part in self.command):
            raise ValueError("`command` has a NUL in it, which no program can be given")
        return self
