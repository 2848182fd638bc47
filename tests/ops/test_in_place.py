"""Kernels that say `in_place` give the same when source and destination are the same memory."""

import numpy as np

from stoker.jit import compiled
from stoker.ops import State, registered


def test_in_place_kernels(example, kind_in_place, dtype, run_op, as_record, values_of):
    kernel = example.kernel_of(kind_in_place, dtype)
    values = values_of(example, 37, 51, dtype=dtype)
    source = next(array for kind, array in values if kind == kind_in_place)
    state = State.fixed(kind_in_place, str(source.dtype), source.shape)
    (after,), need = example.declare((state,))
    assert after == state, "memory can be shared only where the state stays"
    expected = run_op(example, [(kind_in_place, source)], 5)
    params = as_record(example.parameters, example.params())
    for run in (compiled(kernel.run), kernel.plain):
        memory = source.copy()
        run(memory, memory, params, expected.record, np.zeros(need + 64, np.uint8))
        assert (memory == expected.outputs[0]).all()


def test_some_kernel_is_in_place():
    kernels = [kernel for op in registered().values() for kernel in op.kernels.values()]
    assert any(kernel.in_place for kernel in kernels)
