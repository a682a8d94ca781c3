"""From a claim to the call that goes out: prompt, request, ids and time limit."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from aijobs.core.model import Job
from aijobs.core.output_room import grown, has_room
from aijobs.core.settings import Kind, Settings, ShadowSettings, TypeSettings
from aijobs.providers.contract import Adapter, Call, PythonContext
from aijobs.services.coordinator import Claim
from aijobs.services.worker.attempt import Attempt, Means
from aijobs.services.worker.ids import client_request_id, idempotency_key, traceparent_as_given
from aijobs.services.worker.recipe import Recipe, recipe_of

_LEAST = timedelta(milliseconds=1)


class Calls:
    """Prepares the calls of one worker.

    *adapter* finds a provider by name, *timeout* says how long one call of a type may take, *context* makes
    what a python job may ask of us, *traceparent* says where in a trace the calls of a job belong.
    """

    def __init__(
        self, settings: Settings, *, adapter: Callable[[str], Adapter], timeout: Callable[[str], timedelta],
        context: Callable[[Attempt], PythonContext],
        traceparent: Callable[[Job], str | None] = traceparent_as_given,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._adapter = adapter
        self._timeout = timeout
        self._context = context
        self._traceparent = traceparent
        self._recipes: dict[str, Recipe] = {}

    def configure(self, settings: Settings) -> None:
        """Prepare the calls to come by new settings."""
        self._settings = settings
        self._recipes.clear()

    def adapter_of(self, job: Job) -> Adapter:
        """The provider *job* was claimed for. Raises NotFound when the configuration has lost it."""
        return self._adapter(job.provider or self.recipe(job.type).kind.provider)

    def call_of(self, attempt: Attempt, now: datetime) -> Call:
        """The call of this attempt; it never reaches beyond the job's deadline.

        Raises NotFound (type or provider gone from the configuration) and UsageError (the input does not fit
        the prompt).
        """
        job, means = attempt.claim.job, self.means_of(attempt)
        data, limit = json.loads(attempt.claim.payload), means.timeout
        return self._call(
            job, means.recipe, data=data, prompt=means.recipe.prompt(data),
            timeout=max(min(limit, job.deadline - now), _LEAST) if job.deadline else limit,
            context=means.context, truncated=attempt.claim.truncated,
        )  # fmt: skip

    def shadow_call(self, claim: Claim, shadow: ShadowSettings) -> Call:
        """The same question to a candidate: in the foreground, with ids of its own. *claim* names it.

        Raises as `call_of` does.
        """
        job = claim.job
        recipe = self.recipe(job.type)
        data = json.loads(claim.payload)
        call = self._call(
            job, recipe, data=data, prompt=recipe.prompt(data), timeout=self._timeout(job.type), context=None
        )
        return replace(
            call, model=shadow.model, request=shadow.request, background=False, completion_window=None,
            client_request_id=f"aijobs-{job.id}-shadow-{job.attempts}",
            idempotency_key=f"{call.idempotency_key}-shadow",
        )  # fmt: skip

    def means_of(self, attempt: Attempt) -> Means:
        """What the attempt comes to its end with, the same from the first time it is asked for.

        Raises NotFound when the configuration has lost the type or the provider before.
        """
        if attempt.means is None:
            job = attempt.claim.job
            recipe, timeout = self.recipe(job.type), self._timeout(job.type)
            attempt.means = Means(
                adapter=self.adapter_of(job), recipe=recipe, timeout=timeout,
                context=self._context(attempt) if self._is_python(job, recipe) else None,
                question=self._call(job, recipe, data=None, prompt=None, timeout=timeout, context=None),
            )  # fmt: skip
        return attempt.means

    def recipe(self, type_name: str) -> Recipe:
        """What every call of the type has in common. Raises NotFound."""
        known = self._recipes.get(type_name)
        if known is None:
            known = self._recipes[type_name] = recipe_of(self._settings, type_name)
        return known

    def _call(
        self, job: Job, recipe: Recipe, *, data: object, prompt: str | None, timeout: timedelta,
        context: PythonContext | None, truncated: int = 0,
    ) -> Call:  # fmt: skip
        kind, request = recipe.kind, _request(job, recipe.kind)
        if kind.grow_output and truncated:
            request = grown(request, truncated, factor=kind.grow_output.factor, most=kind.grow_output.max)
        return Call(
            job_id=job.id,
            type=job.type,
            attempt=job.attempts,
            model=job.model if kind.is_fallback(job.provider, job.model) else job.model or kind.model,
            prompt=prompt,
            input=data,
            request=request,
            timeout=timeout,
            client_request_id=client_request_id(job),
            idempotency_key=idempotency_key(job),
            traceparent=self._traceparent(job),
            background=recipe.kind.background,
            completion_window=recipe.completion_window,
            expects_json=recipe.kind.expects_json,
            response_format=recipe.kind.response_format,
            result_bytes=self._settings.limits.result_bytes,
            context=context,
        )

    def _is_python(self, job: Job, recipe: Recipe) -> bool:
        name = job.provider or recipe.kind.provider
        return self._settings.provider(name).kind is Kind.PYTHON


def may_grow(claim: Claim, kind: TypeSettings) -> bool:
    """Whether the next call of this job would be given more room for its answer than this one was."""
    grow, request = kind.grow_output, _request(claim.job, kind)
    return grow is not None and has_room(request, claim.truncated, factor=grow.factor, most=grow.max)


def _request(job: Job, kind: TypeSettings) -> Mapping[str, object]:
    """What is merged into the request of this job, at the provider it was claimed for."""
    if kind.fallback is not None and kind.is_fallback(job.provider, job.model):
        return kind.fallback.request
    return kind.request
