"""Shorter code for views and for assignments to slices: NumPy's results, numba's errors."""

import numba
import numpy as np
import pytest
from numba.core import types
from numba.core.registry import cpu_target
from numba.np import arrayobj

from stoker.jit import compiled, diskcache, kernel, lowerings
from stoker.jit.functions import local_dispatcher
from stoker.jit.shortcuts import shortcuts


@kernel
def shaped(array, height, width):
    flat = array.reshape(array.size)
    return flat, array.reshape((height, width, 1)), array.reshape(height, width)


@kernel
def seen(array):
    one = array[:, 0].copy()
    return array.view(np.uint16), array.view(np.int8), array.view(np.uint64)[1:], one.view(np.int32)


@kernel
def with_gaps(array):
    return array[:, ::2].view(np.uint32).sum(), array[:, 1].copy().reshape(2, -1)[1, 0]


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diskcache, "_chosen", [tmp_path_factory.mktemp("kernels")])
        yield {fn: compiled(fn) for fn in (shaped, seen, with_gaps)}


def assert_same(made, expected):
    for one, two in zip(made, expected, strict=True):
        np.testing.assert_array_equal(one, two, strict=True)
        assert one.strides == two.strides
        assert np.shares_memory(one, two)


@pytest.mark.slow
@pytest.mark.parametrize("sides", [(3, 8), (-1, 8), (24, -1), (1, 24)])
def test_reshape_is_numpys(fast, sides):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert_same(fast[shaped](array, *sides), shaped(array, *sides))


@pytest.mark.parametrize("sides", [(0, 7), (-1, 5)])
def test_reshape_of_nothing(fast, sides):
    array = np.zeros((0, 6), np.float32)
    made = fast[shaped](array, *sides)
    assert [one.shape for one in made] == [one.shape for one in shaped(array, *sides)]


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        ((4, 7), "total size of new array must be unchanged"),
        ((-1, 7), "total size of new array must be unchanged"),
        ((-1, 0), "total size of new array must be unchanged"),
        ((-1, -1), "multiple negative shape values"),
    ],
)
def test_shapes_that_do_not_fit(fast, sides, message):
    array = np.zeros((4, 6), np.float32)
    with pytest.raises(ValueError, match=message):
        fast[shaped](array, *sides)
    with pytest.raises(ValueError, match=r"reshape array of size 24|can only specify one"):
        shaped(array, *sides)


@pytest.mark.slow
def test_view_is_numpys(fast):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    made = fast[seen](array)
    assert_same(made[:3], seen(array)[:3])
    np.testing.assert_array_equal(made[3], seen(array)[3], strict=True)


def test_a_view_that_does_not_fit(fast):
    with pytest.raises(ValueError, match="its size must be a divisor of the total size in bytes"):
        fast[seen](np.zeros((4, 5), np.float32))


@pytest.mark.slow
def test_numba_lowers_arrays_with_gaps(fast):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert fast[with_gaps](array) == with_gaps(array)


def test_no_helper_is_compiled(fast):
    """Numba's own lowering of `view` compiles a function for each call."""
    fast[seen](np.zeros((4, 6), np.float32))
    (made,) = fast[seen].overloads.values()
    names = [one.name for one in made.library._final_module.functions]
    assert not [name for name in names if "change_dtype" in name or "nocopy_reshape" in name]


def copies(target, value):
    target[1:] = value


@pytest.mark.slow
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
    assert (str(raised.value) == lowerings.OTHER_SHAPE) == shortcut
    assert target.tolist() == [[0, 0], [0, 1], [2, 3]]


def test_the_signature_of_the_error_is_numbas():
    assert lowerings._other_shape is arrayobj.raise_with_shape_context
    cpu_target.target_context.refresh()
    kind = cpu_target.typing_context.resolve_value_type(arrayobj.raise_with_shape_context)
    given = (types.UniTuple(types.int64, 2),) * 2
    with shortcuts():
        found = kind.get_call_type(cpu_target.typing_context, given, {})
    numbas = kind.get_call_type(cpu_target.typing_context, given, {})
    assert (found.return_type, found.args) == (numbas.return_type, numbas.args)
