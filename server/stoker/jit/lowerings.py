"""Shorter code for `reshape` and `view` of contiguous arrays, and for assignments to slices.

- **Views.** numba compiles a helper function for each `view` that it lowers, and calls C code for
  each `reshape`, so that they also work for arrays with gaps. Kernels cut their work from one flat
  scratch: they have a hundred views of contiguous arrays, each of which cost a tenth of a second.
  Shapes, errors and their messages are numba's.
- **Assignments to a slice.** If the shapes differ, numba's error names both. The code that writes
  this text at run time is larger than most kernels. Here the error has numba's text for other
  targets than CPUs, which is a constant. The plain form of a kernel, and NumPy, name the shapes.

It relies on private interfaces of numba, which `tests/jit/test_lowerings.py` tests. Importing this
module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils as untyped_cgutils
from numba.core import imputils as untyped_imputils
from numba.core import types
from numba.core import typing as untyped_typing
from numba.np import arrayobj as untyped_arrayobj

arrayobj: Any = untyped_arrayobj
cgutils: Any = untyped_cgutils
imputils: Any = untyped_imputils
typing: Any = untyped_typing

WORD = ir.IntType(64)
TOTAL: Final = "total size of new array must be unchanged"
SEVERAL: Final = "multiple negative shape values"
LARGER: Final = (
    "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the"
    " last axis of the array."
)
OTHER_SHAPE: Final = "cannot assign slice from input of different size"
_other_shape: Any = arrayobj.raise_with_shape_context
Build = Callable[[Any, Any, Any, Any], Any]


def signature_of(fn: Any, args: Any) -> Any:
    """Return the signature of a call of numba's that raises `OTHER_SHAPE`; None: another call."""
    return typing.signature(types.none, *args) if fn.typing_key is _other_shape else None


def lowering_of(fn: Any, signature: Any) -> Build | None:
    """Return the function that emits the code of a call; None: numba's is used.

    Args:
        fn: numba's type of the function that is called.
        signature: of the call; of a method, with the array as its receiver.
    """
    if type(fn) is types.Function and fn.typing_key is _other_shape:
        return _raise_other_shape
    name = fn.typing_key if type(fn) is types.BoundFunction else None
    if name not in ("array.reshape", "array.view"):
        return None
    array, *others = signature.as_function().args
    if type(array) is not types.Array or array.layout != "C" or array.ndim == 0:
        return None
    if name == "array.view":
        same = signature.return_type.ndim == array.ndim
        return _view if len(others) == 1 and same else None
    sizes: Any = others
    if len(others) == 1 and isinstance(others[0], types.BaseTuple):
        sizes = others[0]
    whole = all(isinstance(kind, types.Integer) for kind in sizes)
    return _reshape if whole and len(sizes) else None


def _reshape(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Emit an array with the same values and another shape; one size may be negative: the rest."""
    kinds, values = signature.args[1:], arguments[1:]
    if len(kinds) == 1 and isinstance(kinds[0], types.BaseTuple):
        kinds, values = kinds[0], cgutils.unpack_tuple(builder, values[0])
    given = context.make_array(signature.args[0])(context, builder, arguments[0])
    pairs = zip(values, kinds, strict=True)
    sizes = [context.cast(builder, value, kind, types.intp) for value, kind in pairs]
    shape = _fitted(context, builder, sizes, given.nitems)
    made = context.make_array(signature.return_type)(context, builder)
    strides = [given.itemsize]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    shared = {"data": given.data, "itemsize": given.itemsize, "meminfo": given.meminfo}
    arrayobj.populate_array(made, shape=shape, strides=strides, **shared, parent=given.parent)
    return imputils.impl_ret_borrowed(context, builder, signature.return_type, made._getvalue())


def _fitted(context: Any, builder: Any, sizes: list[Any], total: Any) -> list[Any]:
    """Emit the sizes of an array of `total` values."""
    zero, one = ir.Constant(WORD, 0), ir.Constant(WORD, 1)
    open_ = [builder.icmp_signed("<", size, zero) for size in sizes]
    known, count = one, zero
    for size, is_open in zip(sizes, open_, strict=True):
        known = builder.mul(known, builder.select(is_open, one, size))
        count = builder.add(count, builder.zext(is_open, WORD))
    rest = cgutils.alloca_once_value(builder, zero)
    plain = builder.icmp_signed("==", count, zero)
    fits = builder.and_(plain, builder.icmp_signed("==", known, total))
    with cgutils.if_unlikely(builder, builder.not_(fits)):
        with builder.if_then(builder.icmp_signed(">", count, one)):
            context.call_conv.return_user_exc(builder, ValueError, (SEVERAL,))
        nothing = builder.icmp_signed("==", known, zero)
        inferred = builder.sdiv(total, builder.select(nothing, one, known))
        inferred = builder.select(nothing, zero, inferred)
        whole = builder.icmp_signed("==", builder.mul(inferred, known), total)
        whole = builder.and_(whole, builder.icmp_signed("==", count, one))
        with builder.if_then(builder.not_(whole)):
            context.call_conv.return_user_exc(builder, ValueError, (TOTAL,))
        builder.store(inferred, rest)
    inferred = builder.load(rest)
    pairs = zip(open_, sizes, strict=True)
    return [builder.select(is_open, inferred, size) for is_open, size in pairs]


def _view(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Emit an array with the same bytes and another dtype."""
    array, kind = signature.args[0], signature.return_type
    given = context.make_array(array)(context, builder, arguments[0])
    made = context.make_array(kind)(context, builder)
    old, new = (arrayobj.get_itemsize(context, one) for one in (array, kind))
    *others, last = cgutils.unpack_tuple(builder, given.shape)
    size = ir.Constant(WORD, new)
    if old != new:
        total = builder.mul(last, ir.Constant(WORD, old))
        left = builder.urem(total, size)
        with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, left)):
            context.call_conv.return_user_exc(builder, ValueError, (LARGER,))
        last = builder.udiv(total, size)
    *outer, _ = cgutils.unpack_tuple(builder, given.strides)
    data = builder.bitcast(given.data, made.data.type)
    shared = {"data": data, "itemsize": size, "meminfo": given.meminfo, "parent": given.parent}
    arrayobj.populate_array(made, shape=[*others, last], strides=[*outer, size], **shared)
    return imputils.impl_ret_borrowed(context, builder, kind, made._getvalue())


def _raise_other_shape(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
    context.call_conv.return_user_exc(builder, ValueError, (OTHER_SHAPE,))
    return context.get_dummy_value()
