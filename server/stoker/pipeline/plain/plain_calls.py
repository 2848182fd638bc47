"""Functions of ops called as plain Python, with the arithmetic and errors of machine code.

Numbers that a kernel reads out of arrays are NumPy scalars, the sides of an array Python numbers:
division by zero warns for the former and raises for the latter. Machine code of a user kernel
raises for both, so both raise here. Everything else that NumPy would warn about (an overflow, inf -
inf, zeros among the divisors of a whole array) continues in machine code, and here. An exception of
a function becomes an error that names op, sample and the user's line. Runs where the interpreter
does.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from stoker.jit.kernels import is_ours
from stoker.ops.custom.foreign import CallError
from stoker.pipeline.engine.sample_faults import kernel_error
from stoker.pipeline.planning.decision import Decision
from stoker.protocol.errors import StokerError
from stoker.rng.row import Row

_DIVISION: Final = re.compile(r" in scalar (divide|floor_divide|remainder|divmod)")
FAR: Final = 2**40
"""An upper limit of sides; nan and values beyond it become -1, which no bound allows."""


def call_plain(decision: Decision, what: str, fn: Callable[..., Any], row: Row, *args: Any) -> Any:
    """Return the result of a function of an op.

    Args:
        decision: the decision whose function it is.
        what: the role of the function, such as "draw" or "image kernel".
        fn: the function.
        row: the row.
        args: the arguments; on a division warning of NumPy the function is called a second time.

    Raises:
        BuildError: it raised; names op, sample and line.
        CallError: it is a user's Python function, which failed.
        StokerError: Stoker's own errors that it raises.
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
        remedy = "A kernel must not raise: test a divisor before dividing"
        raise kernel_error(decision, what, fn, row, f"{did}{_line(error)}", remedy) from error


def whole_sides(sides: Any) -> tuple[int, ...]:
    """Return a size from `out_size` as integers, as machine code does: nan becomes -1."""
    return tuple(int(side) if -FAR < side < FAR else -1 for side in sides)


def _line(error: Exception) -> str:
    """Return the user's line where it happened, in words."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not str(frame.f_globals.get("__name__")).startswith("stoker.")
    ]
    return " in {}:{}".format(*frames[-1]) if frames else ""
