"""Vector fields: optical flow and surface normals, whose components follow the pixels that move.

flow: (H, W, 2) float32, the displacement (dx, dy) in pixels, x to the right, y down. normals:
(H, W, 3) float32, (nx, ny, nz) with the same x and y; nz, along the viewing axis, never changes.
An op treats the field as an image of float32, new pixels being 0. Then the linear part of the op's
map (`Op.forward`) is applied to the components: all of it to flow, only its rotation or reflection
to normals, since a resize turns no surface. This is right for affine maps alone, so an op without
`Op.affine` refuses both.
"""

import dataclasses
from typing import Any

from stoker.ops.contract.op import Op
from stoker.ops.contract.states import VECTORS, State, StateError


def as_image(state: State) -> State:
    """Return the state that an op sees of a value: a vector field is an image to it."""
    return dataclasses.replace(state, kind="image") if state.kind in VECTORS else state


def as_given(given: State, result: State) -> State:
    """Return a result of an op with the kind of what went in, if that is a vector field."""
    kept = given.kind in VECTORS and result.kind == "image"
    return dataclasses.replace(result, kind=given.kind) if kept else result


def require_vectors(op: Op, state: State) -> None:
    """Refuse a vector field that an op has no rule for.

    Raises:
        StateError: names op, state and remedy.
    """
    if state.kind not in VECTORS:
        return
    fault = op.vector_fault(state.kind)
    if fault is not None:
        raise StateError(f"{op.name} has no rule for {state}: {fault}", op=op.name)


def unfilled(op: Op) -> Op:
    """Return the op as it treats a vector field: what it writes outside of the image is 0."""
    fields = {field.name for field in dataclasses.fields(op)}
    filled: Any = getattr(op, "fill", 0) if "fill" in fields else 0
    zero = not any(filled) if isinstance(filled, tuple) else not filled
    return op if zero else dataclasses.replace(op, **{"fill": 0})
