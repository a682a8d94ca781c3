"""How long one call of a type is given just now, and why: the same answer for a worker and for who looks."""

from aijobs.core.settings import Settings
from aijobs.core.timeouts import Chosen, timeout_for
from aijobs.store import run_times
from aijobs.store.engine import Tx


def time_limit(tx: Tx, settings: Settings, type_name: str) -> Chosen:
    """The limit that is set, learned from the latest runs (`auto`), or the tier's. Raises NotFound."""
    kind = settings.type(type_name)
    most = settings.timeouts.auto.max_samples
    history = run_times.latest(tx, type_name, most) if kind.timeout == "auto" else []
    return timeout_for(kind, history, timeouts=settings.timeouts)
