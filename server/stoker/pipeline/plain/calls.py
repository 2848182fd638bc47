"""Functions of ops called as plain Python: the arithmetic is machine code's, and so are the errors.

Numbers that a kernel reads out of arrays are NumPy scalars, the sides of an array Python numbers:
divided by zero the former warn, the latter raise. Machine code of a user's kernel raises for both,
so here both do. Everything else that NumPy would warn of (an overflow, inf - inf, zeros among the
divisors of a whole array) goes on in machine code, and here. What a function raises becomes an
error that names op, sample and the user's line. numba-free; runs where the interpreter does.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from stoker.jit.kernels import is_ours
from stoker.ops.custom.foreign import CallError
from stoker.pipeline.engine.faults import kernel_error
from stoker.pipeline.planning.decision import Decision
from stoker.protocol.errors import StokerError
from stoker.rng.row import Row

_DIVISION: Final = re.compile(r" in scalar (divide|floor_divide|remainder|divmod)")
FAR: Final = 2**40
"""No side is as long; nan, and what is beyond it, stands as -1, which no bound allows."""


def call_plain(decision: Decision, what: str, fn: Callable[..., Any], row: Row, *args: Any) -> Any:
    """Return what a function of an op gives.

    Args:
        decision: whose function it is.
        what: which one it is, such as "draw" or "image kernel".
        fn: the function.
        row: for which row.
        args: what it is called with; where it meets what NumPy warns of, it is called twice.

    Raises:
        BuildError: it raised; names op, sample and line.
        CallError: it is a user's Python function, which failed.
        StokerError: what it raises of ours.
    """
    if is_ours(fn):
        with np.errstate(all="ignore"):
            return fn(*args)
    try:
        try:
            with np.errstate(all="ignore", divide="raise", invalid="raise"):
                return fn(*args)
        except FloatingPointError as error:
            if _DIVISION.search(str(error)):
                raise
        with np.errstate(all="ignore"):
            return fn(*args)
    except (StokerError, CallError):
        raise
    except Exception as error:
        by_zero = isinstance(error, FloatingPointError | ZeroDivisionError)
        did = "divides by zero" if by_zero else f"raised {type(error).__name__}: {error}"
        remedy = "A kernel raises nothing: it tests a divisor before it divides"
        raise kernel_error(decision, what, fn, row, f"{did}{_line(error)}", remedy) from error


def whole_sides(sides: Any) -> tuple[int, ...]:
    """Return a size that `out_size` gave as integers, as machine code takes it: nan is -1."""
    return tuple(int(side) if -FAR < side < FAR else -1 for side in sides)


def _line(error: Exception) -> str:
    """Say in which line of a user's it happened."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not str(frame.f_globals.get("__name__")).startswith("stoker.")
    ]
    return " in {}:{}".format(*frames[-1]) if frames else ""
