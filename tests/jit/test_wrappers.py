"""The wrappers of parallel loops make no machine code, unless their address is asked for."""

import functools

import numba
import numpy as np
import pytest
from numba.core import types
from numba.core.codegen import JITCodeLibrary

from stoker.jit import wrappers
from stoker.jit.functions import local_dispatcher

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
    found = [one for one in libraries if one.name.startswith(wrappers.WRAPPERS)]
    assert [type(one) for one in found] == [wrappers.CopiedLibrary] * len(wrappers.WRAPPERS)
    values = np.arange(100.0)
    fast(values, 3)
    assert np.array_equal(values, np.arange(100.0) * 3)
    for one in found:
        names = [f.name for f in one._final_module.functions if not f.is_declaration]
        addresses = [one.get_pointer_to_function(names[0]) for _ in range(2)]
        assert addresses[0] == addresses[1] != 0  # an address that is asked for
        assert one.get_pointer_to_function("no such function") == 0
