"""Filters by what jobs are made of. Apart from the other options, for the overview needs those alone."""

from typing import Annotated

import typer

from aijobs.core.model import ErrorClass, Status

ErrorClassFilter = Annotated[
    ErrorClass | None,
    typer.Option("--error-class", metavar="CLASS", help="Only jobs whose last error is of this class."),
]
Statuses = Annotated[
    list[Status] | None,
    typer.Option("--status", metavar="STATUS", help=f"One of {', '.join(Status)}; may be repeated."),
]
Unfinished = Annotated[
    list[Status] | None,
    typer.Option("--status", metavar="STATUS", help="pending, failed or processing; may be repeated."),
]
Held = Annotated[
    bool, typer.Option("--held", help="Only jobs that wait for a person to decide; see retry, cancel.")
]
