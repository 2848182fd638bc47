"""Flags that take a number above 0, which is neither infinite nor "nan"."""

import math
from typing import Annotated

import typer


def above_0(given: float | None) -> float | None:
    """Return the value of a flag.

    Raises:
        BadParameter: it is not above 0, or not finite.
    """
    if given is not None and not (math.isfinite(given) and given > 0):
        raise typer.BadParameter(f"expected a number above 0, got {given:g}")
    return given


Seconds = Annotated[float, typer.Option(callback=above_0, help="Seconds for each measurement.")]
