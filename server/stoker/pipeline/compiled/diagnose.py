"""Errors for functions that numba refuses, naming the op at fault.

The error has the user's line, the states, and the last line of numba's message. Imports numba; used
while a plan is compiled.
"""

from __future__ import annotations

from typing import Any

from numba import types

from stoker.pipeline.compiled.kernel_calls import Call
from stoker.protocol.errors import BuildError


def refused(call: Call, why: str) -> BuildError:
    """Return the error that names the op's function that cannot be compiled, and the reason."""
    if call.rule is None:
        return BuildError(f"the pipeline cannot be compiled: {call}: {why}")
    code, site = call.rule.__code__, call.site
    states = f" on {call.src} to {call.dst}" if call.what.endswith("kernel") else ""
    return BuildError(
        f"{site}: op {call.op!r}{states}: its {call.what} "
        f"({code.co_filename}:{code.co_firstlineno}) cannot be compiled: {why}. "
        f"A kernel uses numbers, loops and views of its arguments only",
        op=call.op,
        file=site.file,
        line=site.line,
    )


def gives_nothing(signature: Any) -> bool:
    """Return whether a compiled function returns nothing."""
    return bool(signature.return_type == types.none)


def reason(error: BaseException) -> str:
    """Return numba's message in one line, without its path through the compiler."""
    if isinstance(error, KeyError):
        return f"there is no field {error}"
    lines = [line.strip() for line in str(error).splitlines()]
    useful = [
        line
        for line in lines
        if line
        and not line.startswith(("During:", "File ", "def ", "<source", "^", "-", "Failed in"))
        and "np.ndarray pipeline" not in line
    ]
    return (useful[0] if useful else type(error).__name__).rstrip(".")
