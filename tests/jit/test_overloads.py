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


def test_the_wrappers_of_a_parallel_loop_become_no_machine_code(monkeypatch):
    def doubled(values, number):
        for i in numba.prange(len(values)):
            values[i] *= number

    libraries = []
    made = JITCodeLibrary.finalize

    def finalize(self):
        made(self)
        libraries.append(self)

    monkeypatch.setattr(JITCodeLibrary, "finalize", finalize)
    fast = local_dispatcher(functools.partial(numba.njit, parallel=True), None, doubled)
    fast.compile((types.float64[::1], types.int64))
    wrappers = [one for one in libraries if one.name.startswith(overloads.WRAPPERS)]
    assert [type(one) for one in wrappers] == [overloads.CopiedLibrary] * len(overloads.WRAPPERS)
    values = np.arange(100.0)
    fast(values, 3)
    assert np.array_equal(values, np.arange(100.0) * 3)
    for one in wrappers:
        names = [f.name for f in one._final_module.functions if not f.is_declaration]
        addresses = [one.get_pointer_to_function(names[0]) for _ in range(2)]
        assert addresses[0] == addresses[1] != 0  # an address that is asked for
        assert one.get_pointer_to_function("no such function") == 0


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
    assert overloads._other_shape is arrayobj.raise_with_shape_context
    cpu_target.target_context.refresh()
    kind = cpu_target.typing_context.resolve_value_type(arrayobj.raise_with_shape_context)
    given = (types.UniTuple(types.int64, 2),) * 2
    with shortcuts():
        found = kind.get_call_type(cpu_target.typing_context, given, {})
    numbas = kind.get_call_type(cpu_target.typing_context, given, {})
    assert (found.return_type, found.args) == (numbas.return_type, numbas.args)
