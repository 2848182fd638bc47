"""Calls that stay apart: the same numbers, small callers, and nothing taken for anything else.

In fresh interpreters where the cache matters.
"""

import numba
import numpy as np
import pytest

from stoker.rng.jit import compiled_apart, kernel

PAIR = (numba.types.float64, numba.types.int64)


@kernel
def part(x, n):
    total = x
    for i in range(n):
        total = total * 0.5 + i
    return total


@kernel
def joined(x, n):
    return part(x, n) + part(x + 1.0, n) * 2.0


@kernel
def split(x, n):
    return part(x, n) + part(x + 1.0, n) * 2.0


@kernel
def mixed(x, n):
    return part(x, n) + part(n, n)


def called(fast):
    """Names of the functions that machine code calls and does not have."""
    return [
        line.split("@")[1].split("(")[0]
        for text in fast.inspect_llvm().values()
        for line in text.splitlines()
        if line.startswith("declare") and "stoker." in line
    ]


SCRIPT = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import test_apart as t
    from stoker.rng.jit import compiled, compiled_apart
    together, apart = compiled(t.joined), compiled_apart(t.split, [(t.part, t.PAIR)])
    values = [(x / 7, n) for x in range(-20, 20) for n in (0, 1, 5)]
    expected = [t.joined(*v) for v in values]
    assert [together(*v) for v in values] == [apart(*v) for v in values] == expected
    hits = sum(apart.stats.cache_hits.values())
    print(hits, t.called(apart) if not hits else "")
"""


@pytest.mark.slow
def test_the_numbers_are_those_of_copied_callees_also_from_the_cache(python):
    folder = __file__.rpartition("/")[0]
    hits, names = python(SCRIPT, folder).split(" ", 1)
    assert hits == "0"
    assert names.count("stoker.part.") == 1
    assert python(SCRIPT, folder) == "1"


def test_calls_with_other_types_are_copied_in():
    fast = compiled_apart(mixed, [(part, PAIR)])
    assert fast(0.25, 3) == mixed(0.25, 3)
    assert compiled_apart(mixed, []) is fast


@kernel
def violating(x, n):
    return part(x, n) + np.exp(x)


@kernel
def outer(x, n):
    return violating(x, n)


@pytest.mark.slow
def test_external_calls_are_no_violations_but_what_they_hide_is_found_on_its_own(python):
    script = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import test_apart as t
        from stoker.rng.jit import compiled, compiled_apart
        from stoker.rng.machine_code import violations
        fast = compiled_apart(t.outer, [(t.violating, t.PAIR)])
        fast(0.5, 2)
        print(violations(fast), violations(compiled(t.violating)))
    """
    assert python(script, __file__.rpartition("/")[0]) == "[] ['calls llvm.exp.f64']"
