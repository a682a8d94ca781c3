"""Every error an operator can meet, as one tree; the exit code sits on the class.

AijobsError                     1
├── UsageError                  2   the command was given something it cannot take
│   ├── InvalidInput            2   a job's input is not valid JSON, too large, too deep, or off its schema
│   └── ConfigError             2   the configuration file has faults (all of them, with file:line:column)
├── NotFound                    3   no such job, plan, schedule, provider, type
├── Conflict                    4   what was asked contradicts the present state
│   ├── KeyConflict             4   the idempotency key is known, with another input
│   ├── KeyOwnerEnded           4   the idempotency key belongs to a job that died or was cancelled
│   ├── BacklogFull             4   the type's line is as long as it may be; nothing was enqueued
│   └── AlreadyFinished         4   the job has ended; nothing was changed
├── StoreError                  5   the store cannot serve
│   ├── StoreUnreachable        5   no server, wrong password, no such path, read-only, full
│   ├── StoreLocked             5   another process held the lock for longer than the wait
│   └── SchemaMismatch          5   the store was written by another schema version
├── LeaseLost                   1   the job is leased to somebody else now; whatever we write is a no-op
└── Interrupted               130   a person pressed Ctrl-C
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class AijobsError(Exception):
    """Base of the tree: one clear line (*what, where*), and a hint (*what to do*)."""

    exit_code = 1
    kind = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.account: Mapping[str, object] = {}  # what a command had done before, as in its answer in JSON


class UsageError(AijobsError):
    """The command was given something it cannot take."""

    exit_code = 2
    kind = "usage"


class InvalidInput(UsageError):
    """A job's input is not acceptable; the message names the path inside it."""

    kind = "invalid_input"


@dataclass(frozen=True, slots=True)
class ConfigFault:
    """One fault in a configuration file. *line* and *column* count from 1; 0 means the whole file."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        at = f" {self.path}:" if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}:{at} {self.message}{hint}"


class ConfigError(UsageError):
    """The configuration has faults; *faults* holds all of them, in file order, each with its own hint."""

    kind = "config"

    def __init__(self, faults: Sequence[ConfigFault], *, hint: str | None = None) -> None:
        super().__init__("\n".join(map(str, faults)), hint=hint)
        self.faults = tuple(faults)


class NotFound(AijobsError):
    """No such job, plan, schedule, provider or type."""

    exit_code = 3
    kind = "not_found"


_ID_LENGTH = 36


def no_job(job_id: str) -> NotFound:
    """The answer to an id that no job has."""
    whole = "" if len(job_id) == _ID_LENGTH else f"an id is whole, all {_ID_LENGTH} characters; "
    return NotFound(f"no job {job_id}", hint=f"{whole}aijobs inspect lists the newest jobs")


class Conflict(AijobsError):
    """What was asked contradicts the present state; nothing was changed."""

    exit_code = 4
    kind = "conflict"


class KeyConflict(Conflict):
    """The idempotency key is known for this user and type, with another input."""

    kind = "key_conflict"


class KeyOwnerEnded(Conflict):
    """The idempotency key belongs to a job that became a dead letter or was cancelled."""

    kind = "key_owner_ended"


class BacklogFull(Conflict):
    """As many jobs wait as the type allows, in all or for this user."""

    kind = "backlog_full"


class AlreadyFinished(Conflict):
    """The job has ended already."""

    kind = "already_finished"


class StoreError(AijobsError):
    """The store cannot serve."""

    exit_code = 5
    kind = "store"


class StoreUnreachable(StoreError):
    """The store cannot be reached or opened."""

    kind = "store_unreachable"


class StoreLocked(StoreError):
    """Another process held the store's lock for longer than we wait."""

    kind = "store_locked"


class SchemaMismatch(StoreError):
    """The store was written by an older or a newer schema version."""

    kind = "schema_mismatch"


class LeaseLost(AijobsError):
    """The job is leased to somebody else now (or has ended): this worker's write matched no row."""

    kind = "lease_lost"


class Interrupted(AijobsError):
    """A person pressed Ctrl-C."""

    exit_code = 130
    kind = "interrupted"
