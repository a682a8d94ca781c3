"""The coordinator: the only code that changes a job's status.

Each change is one transaction with a guard on id, expected status and fence, together with the execution
record, the event, the dead letter and the notifications it implies.
"""

from aijobs.services.coordinator.coordinator import Coordinator
from aijobs.services.coordinator.values import (
    Claim,
    ClaimRequest,
    Ended,
    Enqueued,
    Fate,
    Finished,
    Received,
    Reception,
    Renewal,
    Rescue,
    Settled,
)

__all__ = [
    "Claim",
    "ClaimRequest",
    "Coordinator",
    "Ended",
    "Enqueued",
    "Fate",
    "Finished",
    "Received",
    "Reception",
    "Renewal",
    "Rescue",
    "Settled",
]
