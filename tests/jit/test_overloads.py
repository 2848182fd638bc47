"""Functions that numba compiles for its own use: no machine code, the same results and errors."""

import functools

import numba
import numpy as np
import pytest
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target
from numba.np import arrayobj

from stoker.jit import overloads
from stoker.jit.functions import local_dispatcher
from stoker.jit.shortcuts import shortcuts

pytestmark = pytest.mark.slow


@pytest.fixture
def calls_plus():
    """A function that calls one which numba compiles for it; each test compiles its own."""

    def plus(values, number):
        raise NotImplementedError

    @numba.extending.overload(plus)
    def overload_of_plus(values, number):
        def added(values, number):
            if number < 0:
                raise ValueError("negative", values)
            return values + number

        return added

    def calls(values, number):
        return plus(values, number)

    return calls


def libraries_of(dispatcher, monkeypatch):
    """Compile a function for an array and a number; return the libraries that were made."""
    found = []
    made = JITCodeLibrary.finalize

    def finalize(self):
        made(self)
        found.append(self)

    monkeypatch.setattr(JITCodeLibrary, "finalize", finalize)
    dispatcher.compile((types.float64[::1], types.int64))
    return found


def test_only_the_outermost_function_becomes_machine_code(monkeypatch, calls_plus):
    fast = local_dispatcher(numba.njit, None, calls_plus)
    *others, outer = libraries_of(fast, monkeypatch)
    (inner,) = (one for one in others if "added" in one.name)
    assert (type(inner), type(outer)) == (overloads.CopiedLibrary, JITCodeLibrary)
    assert inner._is_apart
    assert not [one.name for one in inner.get_defined_functions() if "cfunc" in one.name]
    assert fast(np.arange(3.0), 2).tolist() == [2, 3, 4]


def test_an_address_that_is_asked_for_is_that_of_machine_code(monkeypatch, calls_plus):
    fast = local_dispatcher(numba.njit, None, calls_plus)
    inner = next(one for one in libraries_of(fast, monkeypatch) if "added" in one.name)
    name = next(f.name for f in inner.get_defined_functions() if "added" in f.name)
    address = inner.get_pointer_to_function(name)
    assert address
    assert inner.get_pointer_to_function(name) == address
    assert inner.get_pointer_to_function("no such function") == 0


def test_errors_have_the_objects_that_a_copied_function_gives_them(calls_plus):
    """Python objects of a function are found by its environment."""
    fast = local_dispatcher(numba.njit, None, calls_plus)
    with pytest.raises(ValueError, match="negative") as raised:
        fast(np.arange(3.0), -1)
    word, values = raised.value.args
    assert (word, values.tolist()) == ("negative", [0, 1, 2])


def test_functions_that_call_each_other():
    def is_even(n):
        return True if n == 0 else is_odd(n - 1)

    def is_odd(n):
        return False if n == 0 else is_even(n - 1)

    is_even, is_odd = (numba.njit(no_cpython_wrapper=True)(f) for f in (is_even, is_odd))

    def first(n):
        return is_even(n)

    fast = local_dispatcher(numba.njit, None, first)
    assert [fast(n) for n in range(4)] == [True, False, True, False]


def test_a_parallel_loop_becomes_machine_code_once_for_each_thread_and_once_around(monkeypatch):
    def doubled(values, number):
        for i in numba.prange(len(values)):
            values[i] *= number

    fast = local_dispatcher(functools.partial(numba.njit, parallel=True), None, doubled)
    made = libraries_of(fast, monkeypatch)
    glue = [one for one in made if one.name.startswith(overloads.GLUE)]
    assert [type(one) for one in glue] == [overloads.CopiedLibrary] * len(overloads.GLUE)
    values = np.arange(100.0)
    fast(values, 3)
    assert np.array_equal(values, np.arange(100.0) * 3)


def copies(target, value):
    target[1:] = value


@pytest.mark.parametrize("shortcut", [True, False])
def test_a_value_of_another_shape(shortcut):
    fast = (local_dispatcher if shortcut else lambda jit, _, code: jit(code))(
        numba.njit, None, copies
    )
    target = np.zeros((3, 2))
    fast(target, np.arange(4.0).reshape(2, 2))
    assert target.tolist() == [[0, 0], [0, 1], [2, 3]]
    with pytest.raises(ValueError, match="cannot assign slice") as raised:
        fast(target, np.ones((3, 2)))
    assert (str(raised.value) == overloads.OTHER_SHAPE) == shortcut
    assert target.tolist() == [[0, 0], [0, 1], [2, 3]]


def test_numbas_interfaces_are_there():
    """If one of them goes, kernels still compile, but take longer."""
    assert callable(overloads._numbas_wrapper)
    assert overloads._other_shape is arrayobj.raise_with_shape_context
    cpu_target.target_context.refresh()
    kind = cpu_target.typing_context.resolve_value_type(arrayobj.raise_with_shape_context)
    given = (types.UniTuple(types.int64, 2),) * 2
    with shortcuts():
        found = kind.get_call_type(cpu_target.typing_context, given, {})
    numbas = kind.get_call_type(cpu_target.typing_context, given, {})
    assert (found.return_type, found.args) == (numbas.return_type, numbas.args)
