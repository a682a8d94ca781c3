"""The cap on the line: past it, new jobs are refused at the door instead of growing old inside.

Only jobs that are due and wait for a worker count; what runs, waits for another try or is due later does not.
On SQLite the cap is exact. On PostgreSQL enqueues of the same instant do not see one another and may together
go past it by what they bring: it guards against a flood, and is no quota.
"""

from collections.abc import Iterable

from aijobs.core.errors import BacklogFull
from aijobs.core.model import NewJob
from aijobs.core.settings import Settings
from aijobs.store import line
from aijobs.store.engine import Tx


class Backlog:
    """The places left in the lines, as one transaction sees and fills them."""

    def __init__(self, tx: Tx, settings: Settings) -> None:
        self._tx = tx
        self._types = settings.types
        self._left: dict[tuple[str, str | None], int] = {}

    def capped(self, wanted: Iterable[NewJob]) -> bool:
        """Whether any cap holds for any of *wanted*."""
        kinds = (self._types.get(name) for name in {new.type for new in wanted})
        return any(kind and (kind.backlog or kind.backlog_per_user) for kind in kinds)

    def take(self, new: NewJob) -> BacklogFull | None:
        """Take a place for *new*, or say which line is full."""
        caps = self._caps(new)
        for user, cap in caps.items():
            if self._room(new.type, user, cap) <= 0:
                return _full(new.type, user, cap)
        for user in caps:
            self._left[new.type, user] -= 1
        return None

    def _caps(self, new: NewJob) -> dict[str | None, int]:
        """The caps that hold for a job: by its user, and under None that for all users."""
        kind = self._types.get(new.type)
        if kind is None:
            return {}
        caps = {None: kind.backlog, new.user: kind.backlog_per_user}
        return {user: cap for user, cap in caps.items() if cap is not None}

    def _room(self, type_name: str, user: str | None, cap: int) -> int:
        if (type_name, user) not in self._left:
            self._left[type_name, user] = cap - line.length(self._tx, type_name, user, cap)
        return self._left[type_name, user]


def _full(type_name: str, user: str | None, cap: int) -> BacklogFull:
    whose, option = ("", "backlog") if user is None else (" for this user", "backlog_per_user")
    return BacklogFull(
        f"the backlog of type {type_name}{whose} is full: {cap} jobs wait; nothing was enqueued",
        hint=f"try again later, start more workers, or raise types.{type_name}.{option}",
    )
