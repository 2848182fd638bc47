"""Names of functions that are not kernels: by content, or absent if content is not known."""

import math
from types import FunctionType, ModuleType

import numba
import numpy as np
import pytest

from stoker.compat.ffcv import transforms
from stoker.compat.ffcv.rewriting import rewrite
from stoker.jit.functions import content_key
from stoker.rng.draws import uniform


def made(**names):
    """A function that refers to these values by name."""
    code = "def run(x):\n    return " + " + ".join(["x", *names])
    space = {"__name__": "users", **names}
    exec(code, space)
    return space["run"]


def helper(x):
    return x + 1


def other_helper(x):
    return x + 2


def with_default(x, y=3):
    return x + y


def closed(value):
    def inner(x):
        return x + value

    return inner


TOOLS = ModuleType("tools")
TOOLS.helper = helper
OTHER_TOOLS = ModuleType("tools")
OTHER_TOOLS.helper = other_helper
VALUES = [
    1, 1.0, True, "one", np.float32(1), np.int64(1), (1, 2), [1, 2], (1, (2,)), None,
    np.array([1, 2]), np.array([1, 3]), np.array([1, 2], np.int32), np.array([[1, 2]]),
    np.asfortranarray(np.ones((2, 3))), np.ones((2, 3)), np.dtype("u1"), np.dtype("u2"),
    helper, other_helper, with_default, numba.njit(helper), numba.njit(fastmath=True)(helper),
    numba.njit(other_helper), closed(1), closed(2), (helper, other_helper), numba.prange, range,
    math.sqrt, math.cos, np.sin, np.cos, uniform,
]  # fmt: skip


def test_other_values_are_other_functions_and_the_same_values_are_one():
    keys = [content_key(made(value=value)) for value in VALUES]
    assert None not in keys
    assert len(set(keys)) == len(VALUES)
    assert keys == [content_key(made(value=value)) for value in VALUES]


def test_options_and_names_of_modules_count():
    function = made(value=1)
    assert len({content_key(function), content_key(function, "parallel"), content_key(helper)}) == 3
    by_module = "def run(x):\n    return tools.helper(x)"
    keys = set()
    for tools in (TOOLS, OTHER_TOOLS, math):
        space = {"__name__": "users", "tools": tools}
        exec(by_module, space)
        keys.add(content_key(space["run"]))
    assert len(keys) == 3


def test_functions_that_call_each_other_have_a_name():
    space = {"__name__": "users"}
    exec("def one(x):\n    return two(x)\ndef two(x):\n    return one(x)", space)
    assert content_key(space["one"]) != content_key(space["two"])


class Thing:
    """Nothing that machine code could have."""


@pytest.mark.parametrize("value", [Thing(), Thing, np.array([None]), {"a": 1}, np.random.rand])
def test_unknown_content_has_no_name(value):
    assert content_key(made(value=value)) is None


def test_a_default_and_a_closure_count():
    one = FunctionType(helper.__code__, helper.__globals__, "helper", (1,))
    two = FunctionType(helper.__code__, helper.__globals__, "helper", (2,))
    assert content_key(one) != content_key(two)


def test_functions_of_our_own_that_are_made_at_run_time_count_what_they_hold():
    """A flip with another probability is another function, though its file is the same."""
    keys = {
        content_key(rewrite(transforms.RandomHorizontalFlip(p).generate_code(), "flip").function)
        for p in (0.25, 0.5, 0.5)
    }
    assert len(keys) == 2
    assert None not in keys


LOOPS = """
import sys
from types import FunctionType
import numba
import numpy as np
from numba.core import event
from stoker.jit.functions import content_key, function_dispatcher

def sum_of(number):
    def inner(x):
        total = 0
        for i in numba.prange(x.shape[0]):
            total += x[i] * number
        return total
    return inner

def outer(x):
    return inner(x)

def stored(number):
    made = sum_of(number)
    plain, fast = (
        FunctionType(outer.__code__, {**globals(), "inner": one}, "outer")
        for one in (made, numba.njit(parallel=True)(made))
    )
    return function_dispatcher(fast, {}, content_key(plain))

def sums(numbers):
    compiled = event.RecordingListener()
    event.register("numba:compile", compiled)
    print(*(stored(number)(np.arange(5)) for number in numbers), len(compiled.buffer) > 0)
"""


@pytest.mark.slow
def test_stored_functions_of_two_processes_keep_their_own_parallel_loops(python, tmp_path):
    """The loops of both have one name, from a counter of numba, and the linker takes the first."""
    (tmp_path / "loops_of_test.py").write_text(LOOPS)

    def sums(*numbers):
        lines = "import sys\nsys.path.insert(0, sys.argv[1])\nfrom loops_of_test import sums"
        return python(f"{lines}\nsums({numbers})", str(tmp_path), warm=True).split()

    assert sums(3) == ["30", "True"]
    assert sums(5) == ["50", "True"]
    assert sums(5, 3) == ["50", "30", "False"]
    assert sums(3, 5) == ["30", "50", "False"]
