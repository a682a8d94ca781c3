"""The schedules: what fires when, in whose time, and what happens to the times that were missed."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from aijobs.core.settings.fields import Count, Interval, JsonObject, Name, Priority, Section, Text


class ScheduleSettings(Section):
    """One schedule: a cron line, or an interval. One that was out of the file for a day at most goes on where
    it stood, and `catch_up` decides about the times between; after longer, or with other times, another zone
    or type, it begins afresh. To stop one for a while, use `aijobs schedule pause`.
    """

    type: Annotated[Name, Field(description="which of types it makes jobs of")]
    cron: Annotated[Text | None, Field(description="five fields or an alias like @daily, in quotes")] = None
    every: Annotated[
        Interval | None, Field(description="instead of cron: from 1m to 366d, counted from 1970 in UTC")
    ] = None
    timezone: Annotated[Text, Field(description="the business time zone of cron, like Asia/Shanghai")] = "UTC"
    input: Annotated[JsonObject, Field(description="their input", default_factory=dict)]
    user: Annotated[str, Field(description="whose jobs they are", max_length=255)] = ""
    priority: Annotated[Priority | None, Field(description="of its jobs; default: that of the type")] = None
    catch_up: Annotated[
        Literal["none", "latest", "all"],
        Field(description="which of the times missed while nobody ticked are made up for"),
    ] = "latest"
    catch_up_limit: Annotated[Count, Field(description="with all: at most so many, the latest ones")] = 10
    overlap: Annotated[
        Literal["skip", "allow"],
        Field(description="what becomes of a time while the job before has not ended"),
    ] = "skip"

    @model_validator(mode="after")
    def _cron_or_every(self) -> Self:
        if (self.cron is None) == (self.every is None):
            raise ValueError("needs exactly one of `cron` and `every`")
        return self
