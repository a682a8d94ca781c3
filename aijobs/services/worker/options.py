"""How one worker runs, and what it says of itself when it has ended."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from aijobs.core.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """One worker process. `from_settings` fills in the configuration's values."""

    concurrency: int = 10  # calls at once
    types: tuple[str, ...] | None = None  # None: every type of the configuration
    lease: timedelta = timedelta(seconds=60)
    renew_every: timedelta = timedelta(seconds=20)
    grace: timedelta = timedelta(seconds=30)  # at shutdown, for what runs
    poll: timedelta = timedelta(seconds=1)  # the longest an idle worker goes without looking
    repair_every: timedelta = timedelta(seconds=5)  # how often it looks for attempts of lost workers
    drain: bool = False  # end when nothing is left that could run
    max_jobs: int | None = None  # end after so many claims
    name: str | None = None  # None: host, pid and a random end

    @classmethod
    def from_settings(
        cls, settings: Settings, *, concurrency: int | None = None, types: tuple[str, ...] | None = None,
        lease: timedelta | None = None, grace: timedelta | None = None, drain: bool = False,
        max_jobs: int | None = None, name: str | None = None,
    ) -> Self:  # fmt: skip
        """The worker section of *settings*, with what was given on the command line before it.

        Raises NotFound when *types* names one that is not configured.
        """
        for type_name in types or ():
            settings.type(type_name)
        worker = settings.worker
        return cls(
            concurrency=concurrency or worker.concurrency,
            types=types,
            lease=lease or worker.lease,
            renew_every=lease / 3 if lease else worker.renew_every,
            grace=worker.grace if grace is None else grace,
            poll=worker.poll,
            drain=drain,
            max_jobs=max_jobs,
            name=name,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What a worker did from start to end. A job counts once for each attempt of it that ended here."""

    worker: str
    claimed: int = 0
    succeeded: int = 0
    failed: int = 0  # attempts that failed and are tried again, or wait for a person
    dead_letter: int = 0
    cancelled: int = 0
    lost: int = 0  # leases that were gone before the end could be written
    handed_back: int = 0
    stopped_by: str | None = None  # SIGTERM, SIGINT, ...; None when it ended by itself
