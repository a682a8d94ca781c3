"""Which layer is at fault, told from one snapshot by a list of checks. Pure.

Each check looks at one thing and says what it saw. The first that is not well names the layer: the checks
stand in the order in which a job passes through the layers.
"""

from aijobs.core.diagnosis.findings import Diagnosis, Finding, Layer, conclude
from aijobs.core.diagnosis.job import DeliverySeen, JobSnapshot, NotificationSeen, diagnose_job
from aijobs.core.diagnosis.system import SystemSnapshot, diagnose_system

__all__ = [
    "DeliverySeen",
    "Diagnosis",
    "Finding",
    "JobSnapshot",
    "Layer",
    "NotificationSeen",
    "SystemSnapshot",
    "conclude",
    "diagnose_job",
    "diagnose_system",
]
