"""What every call of one type has in common, made of its settings once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aijobs.core.polling import Pace
from aijobs.core.settings import Settings, TypeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What every call of one type has in common."""

    kind: TypeSettings
    pace: Pace
    completion_window: str | None
    prompt: Callable[[object], str | None]


def recipe_of(settings: Settings, type_name: str) -> Recipe:
    """The recipe of a type. Raises NotFound."""
    kind = settings.type(type_name)
    follow = kind.background_options
    pace = Pace(
        first=follow.poll_first, factor=follow.poll_factor, cap=follow.poll_cap,
        max_queue_wait=follow.max_queue_wait, max_run=follow.max_run,
    )  # fmt: skip
    window = follow.completion_window if kind.background else None
    prompt = _prompter(kind.prompt, settings.limits.prompt_bytes)
    return Recipe(kind=kind, pace=pace, completion_window=window, prompt=prompt)


def _prompter(template: str | None, most_bytes: int) -> Callable[[object], str | None]:
    if template is None:
        return lambda _: None
    from aijobs.core.prompt import render

    def prompt(data: object) -> str:
        given = data if isinstance(data, Mapping) else {"input": data}
        return render(template, given, most_bytes=most_bytes)

    return prompt
