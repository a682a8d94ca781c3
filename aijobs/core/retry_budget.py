"""The budget of retries: when they take too large a share of a provider's calls, they slow down. Pure."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from aijobs.core.clock import Chance
from aijobs.core.lifecycle import RetryPolicy, Verdict
from aijobs.core.model import Failure, Job


@dataclass(frozen=True, slots=True)
class OverBudget:
    """The policy for jobs of a provider whose retry budget is used up.

    Nothing dies of it: a retry comes later, somewhere in the second half of the budget's window, when what
    filled the window has passed out of it. What the provider itself said on when to come back stands.
    """

    policy: RetryPolicy
    window: timedelta

    def verdict(self, job: Job, failure: Failure, now: datetime, chance: Chance) -> Verdict:
        """As the policy's, later."""
        verdict = self.policy.verdict(job, failure, now, chance)
        if not verdict.retry or failure.hint is not None:
            return verdict
        later = self.window * (0.5 + 0.5 * chance.random())
        if verdict.delay >= later:
            return verdict
        return replace(verdict, delay=later, reason=f"{verdict.reason}; the retry budget is used up")
