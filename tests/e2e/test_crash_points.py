"""A worker killed for good at each point of a background job: one result, paid for once."""

import signal
from pathlib import Path

import pytest

from aijobs.core.model import Status
from tests.support.fleet import Fleet, fleet
from tests.support.wait import eventually

pytestmark = pytest.mark.e2e


def ends_well(one: Fleet, job_id: str) -> None:
    eventually(lambda: one.job(job_id).status is Status.SUCCEEDED, 20)
    assert one.simulator.billed(job_id) == 1
    assert one.told(job_id) == 1
    assert one.outcomes(job_id).count("succeeded") == 1


@pytest.mark.parametrize("point", ["after_park", "in_poll", "before_final", "in_final", "after_final"])
def test_once_the_providers_id_is_saved_any_death_costs_nothing(
    tmp_path: Path, database_url: str, point: str
) -> None:
    with fleet(tmp_path, database_url, webhooks=False) as one:
        (job_id,) = one.enqueue()

        assert one.worker(crash=point).wait(20) == -signal.SIGKILL
        one.worker()

        ends_well(one, job_id)
        assert one.outcomes(job_id) == ["succeeded"]  # the same attempt, gone on with


def test_killed_between_the_call_and_the_save_the_webhook_finds_the_job(
    tmp_path: Path, database_url: str
) -> None:
    with fleet(tmp_path, database_url) as one:
        (job_id,) = one.enqueue()

        assert one.worker(crash="after_call").wait(20) == -signal.SIGKILL
        one.until_free(job_id)
        one.worker()

        ends_well(one, job_id)
        assert one.outcomes(job_id) == ["lost", "succeeded"]
        assert "adopted" in one.kinds(job_id)


def test_killed_before_the_call_the_policy_decides(tmp_path: Path, database_url: str) -> None:
    with fleet(tmp_path, database_url, on_unknown="retry") as one:
        (job_id,) = one.enqueue()

        assert one.worker(crash="before_call").wait(20) == -signal.SIGKILL
        one.until_free(job_id)
        one.worker()

        ends_well(one, job_id)
        assert one.outcomes(job_id) == ["lost", "succeeded"]


def test_without_a_webhook_the_unknown_outcome_waits_for_a_person(tmp_path: Path, database_url: str) -> None:
    with fleet(tmp_path, database_url, webhooks=False) as one:
        (job_id,) = one.enqueue()

        assert one.worker(crash="after_call").wait(20) == -signal.SIGKILL
        one.until_free(job_id)
        one.worker()

        eventually(lambda: one.job(job_id).hold_reason, 20)
        assert one.simulator.billed(job_id) == 1
        assert one.outcomes(job_id) == ["lost"]
