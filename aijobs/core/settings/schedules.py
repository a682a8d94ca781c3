"""The schedules: what fires when, in whose time, and what happens to the times that were missed."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from aijobs.core.settings.fields import Count, Interval, JsonObject, Name, Priority, Section, Text


class ScheduleSettings(Section):
    """One schedule: a cron line, or an interval."""

    type: Annotated[Name, Field(description="the job type it makes; of types")]
    cron: Annotated[Text | None, Field(description="five fields or an alias like @daily, in quotes")] = None
    every: Annotated[Interval | None, Field(description="instead of cron: an interval like 5m")] = None
    timezone: Annotated[Text, Field(description="the business time zone of cron, like Asia/Shanghai")] = "UTC"
    input: Annotated[JsonObject, Field(description="the job's input", default_factory=dict)]
    user: Annotated[str, Field(description="whose job it is", max_length=255)] = ""
    priority: Annotated[Priority | None, Field(description="default: that of the type")] = None
    catch_up: Annotated[
        Literal["none", "latest", "all"], Field(description="missed times: none | latest | all (bounded)")
    ] = "latest"
    catch_up_limit: Annotated[Count, Field(description="all: at most this many, the latest ones")] = 10
    overlap: Annotated[
        Literal["skip", "allow"], Field(description="while the previous job is unfinished: skip | allow")
    ] = "skip"

    @model_validator(mode="after")
    def _cron_or_every(self) -> Self:
        if (self.cron is None) == (self.every is None):
            raise ValueError("needs exactly one of `cron` and `every`")
        return self
