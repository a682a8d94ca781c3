"""Leasing jobs to a worker: within every limit, fair between users, and never two workers the same job."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from aijobs.core.limits import Candidate, Limits, Running, Tally, TypeLimits, choose
from aijobs.core.model import Job
from aijobs.core.settings import Settings
from aijobs.core.switches import Pauses, SwitchKind, types_of
from aijobs.core.totals import QUEUE_WAIT, Totals
from aijobs.services.coordinator.counting import shard_of
from aijobs.services.coordinator.gates import Gate, Gates
from aijobs.services.coordinator.values import BreakerChange, Claim, ClaimRequest
from aijobs.store import claims, jobs, moves, rollups, switches, wake
from aijobs.store.dialect import is_postgresql
from aijobs.store.engine import Tx

_PROMOTE_AT_ONCE = 1000
_WALK_AT_ONCE = 1000
_STEPS = 20  # of such walks a claim: a longer lap is gone on with next time, for nobody else claims meanwhile
_SPARE = 50  # looked at beyond what is asked for, because limits may hold back the first in line
_FEW_TYPES = 3

Route = tuple[str, str | None]
"""Where a call goes: provider and model."""


def limits_of(settings: Settings) -> Limits:
    """Every limit of the configuration."""
    return Limits(
        total=settings.concurrency.global_,
        reserved=settings.concurrency.reserved.slots,
        reserved_from=settings.concurrency.reserved.priority,
        per_user=settings.concurrency.per_user,
        providers={name: provider.concurrency for name, provider in settings.providers.items()},
        types={
            name: TypeLimits(provider=kind.provider, concurrency=kind.concurrency, per_user=kind.per_user)
            for name, kind in settings.types.items()
        },
    )


class Claiming:
    """The claim of one process. It remembers where its walk over the users of a crowded type left off."""

    def __init__(self, settings: Settings, gates: Gates) -> None:
        self.settings = settings
        self.limits = limits_of(settings)
        self.gates = gates
        self._providers = {
            name: {kind.route(fallback=fallback)[0] for fallback in (False, True)}
            for name, kind in settings.types.items()
        }
        self._walked: dict[str, str | None] = {}

    def begin(self, tx: Tx, request: ClaimRequest) -> bool:
        """Wait until nobody else claims, where something has to be counted; whether *tx* is the only claim.

        Before anything is read or locked: who waits must neither go by what was true before, as a pause
        that was not there yet, nor keep others waiting.
        """
        if request.slots <= 0:
            return False
        if not is_postgresql(tx):
            return True  # a file has one writer
        if self.limits.any or not self._all_plain(tx, request):
            claims.lock(tx)
            return True
        claims.steer(tx)
        return False

    def claim(self, tx: Tx, request: ClaimRequest, now: datetime, *, alone: bool) -> list[Claim]:
        """Lease parked jobs whose look is due, then ready ones, best first; *alone* as `begin` said."""
        types = self._types(request)
        resumed = self._resume(tx, request, types, now)
        started = self._start(tx, request, types, now, alone=alone) if request.slots > 0 else []
        found = [*resumed, *(job for job, _, _ in started)]
        payloads = jobs.payloads_of(tx, [job.id for job in found]) if found else {}
        cut = self._truncated(tx, found)
        return [Claim(job, payloads.get(job.id, "null"), True, cut.get(job.id, 0)) for job in resumed] + [
            Claim(job, payloads.get(job.id, "null"), False, cut.get(job.id, 0), due_at, change)
            for job, due_at, change in started
        ]

    def _truncated(self, tx: Tx, found: Sequence[Job]) -> dict[str, int]:
        grow = [
            (job.id, job.round)
            for job in found
            if job.attempts > 1 and self.settings.types[job.type].grow_output is not None
        ]
        return jobs.truncations(tx, grow) if grow else {}

    def _all_plain(self, tx: Tx, request: ClaimRequest) -> bool:
        """Whether every provider whose calls may be asked for may be sent any number."""
        providers = {name for kind in self._types(request) for name in self._providers[kind]}
        return self.gates.are_plain(tx, providers)

    def _types(self, request: ClaimRequest) -> list[str]:
        wanted = self.settings.types if request.types is None else request.types
        return [name for name in wanted if name in self.settings.types]

    def _resume(self, tx: Tx, request: ClaimRequest, types: Sequence[str], now: datetime) -> list[Job]:
        room = request.slots if request.resume_slots is None else request.resume_slots
        parked = claims.parked_due(tx, now, types, room) if room > 0 else []
        if not parked:
            return []
        return moves.resume(tx, [job.id for job in parked], request.worker, now, request.lease)

    def _start(
        self, tx: Tx, request: ClaimRequest, types: Sequence[str], now: datetime, *, alone: bool
    ) -> list[tuple[Job, datetime, BreakerChange | None]]:
        """The jobs leased, each with the time since when it was due, and what it changes of its provider."""
        thrown = switches.in_force(tx, now)
        pauses = Pauses.of(thrown, now)
        if pauses.everything:
            return []
        promoted = claims.promote(tx, now, _PROMOTE_AT_ONCE)
        running_types = [name for name in types if name not in pauses.types]
        routes = self._routes(running_types, types_of(thrown, SwitchKind.FALLBACK, now))
        gates = self.gates.look(tx, {provider for provider, _ in routes.values()}, now) if alone else {}
        limits = self.limits.along({name: provider for name, (provider, _) in routes.items()})
        tally = Tally(limits, self._running(tx), starts=_starts(gates))
        choose_some = self._choose if alone else self._choose_beside_others
        chosen = choose_some(tx, tally, running_types, request.slots, now, above=pauses.below)
        if not alone and not promoted.issubset(one.id for one in chosen):
            wake.notify(tx)  # whoever looked meanwhile did not see them
        leased: dict[str, Job] = {}
        for (provider, model), ids in _by_route(chosen, routes).items():
            found = moves.claim(tx, ids, request.worker, now, request.lease, provider, model)
            leased |= {job.id: job for job in found}
        claimed = [one for one in chosen if one.id in leased]
        found = [leased[one.id] for one in claimed]
        # In the order in which the end of a job takes these rows too, or the two would wait for each other.
        self._count(tx, claimed, request.worker, now)
        changes = self.gates.took(tx, found, gates, now)
        return [
            (job, one.due_at or now, changes.get(job.id)) for job, one in zip(found, claimed, strict=True)
        ]

    def _count(self, tx: Tx, claimed: Sequence[Candidate], worker: str, now: datetime) -> None:
        totals = Totals()
        waits: dict[str, list[timedelta]] = defaultdict(list)
        for one in claimed:
            waits[one.type].append(now - (one.due_at or now))
        for type_name, spans in waits.items():
            totals.observe(QUEUE_WAIT, spans, type=type_name)
        rollups.add(tx, totals, shard_of(worker), now)

    def _running(self, tx: Tx) -> list[Running]:
        """What counts in the limits; nothing needs counting where there is none."""
        if not self.limits.any:
            return []
        return claims.running(tx, parked=self.settings.concurrency.parked == "counted")

    def _choose(
        self, tx: Tx, tally: Tally, types: Sequence[str], slots: int, now: datetime, *, above: int | None
    ) -> list[Candidate]:
        """The best of the open types; *above* is the lowest priority that is not paused."""
        open_types = self._ready(tx, [name for name in types if not tally.blocked_type(name)])
        room = slots + _SPARE
        heads = {name: claims.head(tx, name, now, room, above) for name in open_types}
        chosen = choose([one for found in heads.values() for one in found], tally, slots)
        for name, found in heads.items():
            crowded = len(chosen) < slots and len(found) == room and not tally.blocked_type(name)
            if crowded and not tally.blocked_priority(found[-1].priority):
                chosen += self._behind_the_crowd(tx, tally, name, chosen, slots - len(chosen), now, above)
        return chosen

    def _choose_beside_others(
        self, tx: Tx, tally: Tally, types: Sequence[str], slots: int, now: datetime, *, above: int | None
    ) -> list[Candidate]:
        """As `_choose` where nothing is bounded: no more is locked than is taken.

        Others claim at the same moment. They pass over what is locked, and would go idle over a line that
        this claim leaves to them.
        """
        lines = self._ready(tx, list(types))
        chosen: dict[str, Candidate] = {}
        while lines and len(chosen) < slots:
            mine = Counter(one.type for one in chosen.values())
            shares = self._shares(tx, tally, lines, slots, now, above, chosen)
            for name, share in shares.items():
                # What is mine already stands in line until it is leased, and is not locked for myself.
                found = claims.head(tx, name, now, mine[name] + share, above)
                chosen |= {one.id: one for one in found}
            taken = Counter(one.type for one in chosen.values()) - mine
            # A line that gave less is being emptied by others; if none did, there is no more.
            lines = [name for name in lines if taken[name] >= shares[name]] if taken != shares else []
        return choose(list(chosen.values()), tally, slots)

    def _shares(
        self, tx: Tx, tally: Tally, lines: Sequence[str], slots: int, now: datetime, above: int | None,
        chosen: Collection[str],
    ) -> Counter[str]:  # fmt: skip
        """How many more to take from each line, by whose turn it is."""
        if len(lines) == 1:
            return Counter({lines[0]: slots - len(chosen)})
        heads = [one for one in claims.heads(tx, lines, now, slots, above) if one.id not in chosen]
        return Counter(one.type for one in choose(heads, tally, slots - len(chosen)))

    def _ready(self, tx: Tx, types: list[str]) -> list[str]:
        """Those that have a ready job, where they are many: the head of an empty line costs a round trip."""
        if len(types) <= _FEW_TYPES:
            return types
        ready = claims.ready_types(tx)
        return [name for name in types if name in ready]

    def _behind_the_crowd(
        self, tx: Tx, tally: Tally, name: str, chosen: Sequence[Candidate], slots: int, now: datetime,
        above: int | None,
    ) -> list[Candidate]:  # fmt: skip
        """Candidates of users whom the first in line, all at their caps, stand in front of.

        The walk goes from user to user by a loose index scan, a bounded number of steps a claim, and goes on
        next time where it stopped, from the last user to the first: a crowd of capped users costs each claim
        the same.
        """
        taken = {one.id for one in chosen}
        found: list[Candidate] = []
        whole = self._walked.get(name) is None  # what lies between here and the end is all there is
        for _ in range(_STEPS):
            room = slots - len(found) + len(taken)  # what is taken is still among those that wait
            heads = self._walk(tx, tally, name, room, now, above)
            found += choose([one for one in heads if one.id not in taken], tally, slots - len(found))
            taken |= {one.id for one in found}
            ended = self._walked[name] is None
            if len(found) >= slots or (ended and whole):
                break
            whole |= ended
        return found

    def _walk(
        self, tx: Tx, tally: Tally, name: str, room: int, now: datetime, above: int | None
    ) -> list[Candidate]:
        """One step: the first jobs of the users below their caps among the next so many."""
        users = claims.waiting_users(tx, name, self._walked.get(name), _WALK_AT_ONCE)
        free = [user for user in users if not tally.blocked_user(name, user)]
        if len(free) > room:
            self._walked[name] = free[room - 1]
        else:
            self._walked[name] = users[-1] if len(users) == _WALK_AT_ONCE else None
        most = tally.limits.most_of_user(name)
        each = room if most is None else min(room, most)
        return claims.heads_of_users(tx, name, now, free[:room], each, above)

    def _routes(self, types: Sequence[str], on_fallback: frozenset[str]) -> dict[str, Route]:
        return {name: self.settings.types[name].route(fallback=name in on_fallback) for name in types}


def _by_route(chosen: Sequence[Candidate], routes: Mapping[str, Route]) -> dict[Route, list[str]]:
    groups: dict[Route, list[str]] = {}
    for one in chosen:
        groups.setdefault(routes[one.type], []).append(one.id)
    return groups


def _starts(gates: Mapping[str, Gate]) -> dict[str, tuple[int, str]]:
    return {name: (gate.allowed, gate.reason) for name, gate in gates.items() if gate.allowed is not None}
