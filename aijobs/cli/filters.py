"""Filters by what jobs are made of. Apart from the other options, for the overview needs those alone."""

from typing import Annotated

import typer

from aijobs.core.model import ErrorClass

ErrorClassFilter = Annotated[
    ErrorClass | None,
    typer.Option("--error-class", metavar="CLASS", help="Only jobs whose last error is of this class."),
]
