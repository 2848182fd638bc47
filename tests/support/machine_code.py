"""Checks that a kernel's machine code keeps the numeric contract, in its LLVM IR and assembly.

The numeric contract promises the same bytes on every machine, so compiled code calls no math
library (results differ between libraries), and does not reorder or fuse floating-point operations;
a kernel that runs per sample neither allocates memory nor counts references. numba gives the text
of code only to the process that compiled it: choose an empty kernel cache first. For tests; imports
numba.
"""

import re
from collections.abc import Iterator
from typing import Any

from stoker.protocol.errors import UsageError

# LLVM operations that become calls of libm, or fused or inexact operations.
_INEXACT = re.compile(
    r"^llvm\.(?!experimental\.)"
    r"(exp|log|pow|sin|cos|tan|a?sinh?|a?cosh?|a?tanh?2?|ldexp|frexp|fma|fmuladd)\w*\."
)
_FLAGS = re.compile(r"= (f\w+) (?:\w+ )*?(fast|nnan|ninf|nsz|arcp|contract|afn|reassoc)\b")
_CALL = re.compile(r"\bcall\b[^@\n]*@\"?([\w.$]+)")
_FUSED = re.compile(r"\bv?f(?:n?m(?:add|sub)|madd|msub|mla|mls)\d*[sp]?[sd]?\b")
_FUNCTION = re.compile(r"(?=^define )", re.MULTILINE)
_NUMBAS = re.compile(r"^define [^(]*@\"?(?:_ZN7cpython|cfunc\.|_ZN\w*7cpython|NRT_)")
"""The wrapper that Python calls, and what it calls to hold its arguments."""
_KNOWN_CALLS = ("llvm.", "_Z", "numba_attempt_nocopy_reshape")


def violations(fast: Any) -> list[str]:
    """Return how the machine code of a compiled kernel breaks the contract, in words.

    Args:
        fast: what `stoker.jit.compiled` returned, after it was compiled in this process for at
            least one signature. Callees are part of its code.

    Raises:
        UsageError: there is no text: nothing is compiled, or it came from the disk cache.
    """
    texts = list(fast.inspect_llvm().values())
    if not texts or not all("define" in text for text in texts):
        raise UsageError(
            f"{fast.py_func.__qualname__}: no machine code to read: call the kernel in this"
            " process, with an empty kernel cache"
        )
    found = [fault for text in texts for fault in _in_ir(text)]
    found += [
        f"fuses a multiplication and an addition: {match}"
        for text in fast.inspect_asm().values()
        for match in _FUSED.findall(text)
    ]
    return sorted(set(found))


def _in_ir(text: str) -> Iterator[str]:
    for function in _FUNCTION.split(text):
        if not function.startswith("define") or _NUMBAS.match(function):
            continue
        for called in _CALL.findall(function):
            if called.startswith("NRT_") and "lloc" in called:
                yield f"allocates memory: {called}"
            elif called.startswith("NRT_"):
                yield f"counts references: {called}"
            elif not called.startswith(_KNOWN_CALLS) or _INEXACT.match(called):
                yield f"calls {called}"
        for operation, flag in _FLAGS.findall(function):
            yield f"lets {operation} be reordered or rounded differently: {flag}"
        if re.search(r"= frem\b", function):
            yield "calls fmod, by frem"
