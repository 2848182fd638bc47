"""The sizes that an op tells machine code: those of its Python form, as 64-bit integers."""

import contextlib

import numba
import pytest

from stoker.jit import compiled
from stoker.jit.arithmetic import PLAIN
from stoker.ops import make
from stoker.ops.contract.kernel_forms import same_size
from stoker.ops.contract.states import State, StateError
from stoker.ops.testing import structured


def is_fixed(op):
    """Return whether the size of an image is known before it is there."""
    for channels in (3, 4):
        state = State("image", "uint8", (None, None, channels), (64, 64, channels))
        if "array" in op.kernels and "image" not in op.kernels:
            state = State("array", "int32", (None, channels), (64, channels))
        with contextlib.suppress(StateError):
            return op.declare((state,))[0][0].is_fixed
    raise AssertionError(f"{op.name} takes no image of 3 or 4 channels")


@pytest.mark.slow
def test_compiled_sizes_are_the_plain_ones_in_64_bits(examples, run_op):
    compared = set()
    for name, choices in sorted(examples.items()):
        for op in (make(name, params) for params in choices):
            if op.out_size is same_size:
                continue
            fast = compiled(type(op).out_size)
            params = structured(op.parameters, op.params())
            for key, (height, width) in enumerate([(61, 83), (200, 40), (5, 7)]):
                record = run_op.draw(op, key, height, width, arithmetic=PLAIN)
                size = fast(params, record, height, width)
                assert size == tuple(type(op).out_size(params, record, height, width)), op
            results = {made.signature.return_type for made in fast.overloads.values()}
            sides = {side for result in results for side in result}
            assert is_fixed(op) or sides == {numba.int64}, op
            compared.add(name)
    assert {"random_short_side_scale", "resize_long", "rot90", "zoom_out"} <= compared
