"""The account as a table in Markdown: a column a database."""

from collections.abc import Callable, Mapping, Sequence

from tests.chaos.accounts import Account

Cell = Callable[[Account], object]


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


ROWS: Sequence[tuple[str, Cell]] = (
    ("minutes of trouble, seed", lambda a: f"{a.minutes:g}, {a.seed}"),
    ("blows dealt", lambda a: sum(_dealt(a).values())),
    ("which", lambda a: _listed(_dealt(a))),
    ("jobs in", lambda a: a.jobs_in),
    ("enqueued again by the same key: no second job", lambda a: a.duplicates_refused),
    (
        "errors the client saw at enqueue; of them accepted all the same",
        lambda a: f"{a.enqueue_errors}; {a.accepted_unseen}",
    ),
    ("jobs out", lambda a: _listed(a.out)),
    ("dead letters by class", lambda a: _listed(a.dead_by_class)),
    ("attempts", lambda a: _listed(a.attempts)),
    ("**lost**", lambda a: a.lost),
    ("**two effective results**", lambda a: a.doubled_results),
    ("**two effects of one name**", lambda a: a.doubled_effects),
    ("effects of workers that woke too late, refused by their fence", lambda a: a.late_effects_refused),
    ("held, and decided by a person", lambda a: a.released_by_a_person),
    ("rescues; longest, from the end of the lease", lambda a: f"{a.rescues}; {a.longest_rescue:g} s"),
    ("the same with the store there and a worker awake", lambda a: f"{a.longest_rescue_with_store:g} s"),
    ("provider calls; billed", lambda a: f"{a.calls}; {a.calls_billed}"),
    ("calls paid for and not used", lambda a: sum(a.paid_twice.values())),
    ("why", lambda a: _listed(a.paid_twice)),
    ("webhooks", lambda a: _listed(a.webhooks)),
    ("background work found again by its webhook; too late", lambda a: f"{a.adopted}; {a.late}"),
    (
        "ends told; of them more than once; tried again later",
        lambda a: f"{a.notices}; {a.notices_twice}; {a.notices_to_come}",
    ),
    ("longest time without any job ending", lambda a: f"{a.longest_pause:g} s"),
    ("the same with the store there and a worker awake", lambda a: f"{a.longest_pause_at_work:g} s"),
    ("settled after peace; stalled", lambda a: f"{a.settled_after:g} s; {a.stalled}"),
    ("**promises broken**", lambda a: len(a.broken)),
)


def _dealt(account: Account) -> dict[str, int]:
    quiet = ("provider", "peace", "unlocked", "disk freed", "")
    return {name: count for name, count in account.blows.items() if name not in quiet}


def table(accounts: Sequence[Account]) -> str:
    """All of it."""
    lines = [
        "| | " + " | ".join(one.database for one in accounts) + " |",
        "| --- |" + " ---: |" * len(accounts),
    ]
    lines += [f"| {name} | " + " | ".join(str(cell(one)) for one in accounts) + " |" for name, cell in ROWS]
    return "\n".join(lines)
