"""Swap the numbers of keypoints in pairs, as a mirror makes a left eye a right one. No randomness.

Mirrors move keypoints and keep their numbers. So call this right after a flip with
`where_flipped=True`, or in the branch that mirrors. The pairs of `"names"` follow from the names of
the field's keypoints when the pipeline is built; from then on the op has their numbers.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.sides import paired_numbers
from stoker.ops.contract.kernel_forms import ItemsKernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.parameters import OwnRule
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import ParameterError, State, StateError
from stoker.protocol.errors import BuildError

MOST_PAIRS: Final = 128
MOST_NUMBER: Final = 2**31 - 1
PART: Final = "keypoint"
NAMES: Final = "names"
_SHOWN: Final = 8
COCO_PAIRS: Final = tuple((number, number + 1) for number in range(1, 17, 2))
"""Left and right of COCO's person: nose, then eyes, ears, shoulders, ... down to the ankles."""
Pairs = tuple[tuple[int, int], ...]


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, sizes: Any) -> int:
    count = np.int64(params["count"])
    for n in range(src.shape[0]):
        for word in range(src.shape[1]):
            dst[n, word] = src[n, word]
        number = np.int64(src[n, 2])
        for pair in range(count):
            first, second = np.int64(params["first"][pair]), np.int64(params["second"][pair])
            if number == first:
                dst[n, 2] = second
            elif number == second:
                dst[n, 2] = first
    return int(src.shape[0])


def _checked(pairs: object) -> Pairs:
    def fail(why: str) -> ParameterError:
        return ParameterError(
            f'swap_keypoints: pairs: expected "names", "coco", or pairs of different numbers such '
            f"as [(1, 2), (3, 4)], each number once, got {pairs!r}{why}",
            op="swap_keypoints",
        )

    if not isinstance(pairs, list | tuple) or not 0 < len(pairs) <= MOST_PAIRS:
        raise fail("")
    found, seen = [], set()
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise fail(f": {pair!r} is not a pair")
        for number in pair:
            if isinstance(number, bool) or not isinstance(number, int | np.integer):
                raise fail(f": {number!r} is not an integer")
            if not 0 <= number <= MOST_NUMBER:
                raise fail(f": {number} is not a number of a keypoint")
            if number in seen:
                raise fail(f": {number} occurs twice")
            seen.add(number)
        found.append((int(pair[0]), int(pair[1])))
    return tuple(found)


def _settled(op: str, value: Any) -> Pairs | str:
    return NAMES if value == NAMES else COCO_PAIRS if value == "coco" else _checked(value)


def _numbers(pairs: Pairs | str) -> tuple[Any, ...]:
    assert isinstance(pairs, tuple), "names are numbers once the pipeline is built"
    rest = [0] * (MOST_PAIRS - len(pairs))
    return len(pairs), *([*numbers, *rest] for numbers in zip(*pairs, strict=True))


PAIRS: Final = OwnRule(
    _settled,
    f'"names", "coco", or up to {MOST_PAIRS} pairs of different numbers, each number once',
    (("count", "i4"), ("first", "i4", (MOST_PAIRS,)), ("second", "i4", (MOST_PAIRS,))),
    _numbers,
)


@register
class SwapKeypoints(Op):
    """Swap the numbers of keypoints."""

    pairs: Annotated[Pairs | str, PAIRS, "left and right: numbers, or 'names' or 'coco'"]

    moves_pixels = False
    call_options = ()
    kernels = {}
    items = {"keypoints": ItemsKernel(_run)}

    def for_state(self, state: State) -> Op:
        """Return the op with the pairs of the field's names.

        Raises:
            StateError: its keypoints have no names, or no two of them are left and right.
        """
        if self.pairs != NAMES:
            return self
        found = paired_numbers(state.classes)
        if found:
            return SwapKeypoints(found)
        why = (
            f"no two of {', '.join(state.classes[:_SHOWN])} differ in left and right alone"
            if state.classes
            else f"{state} has no names of keypoints, which packing COCO or YOLO writes; in "
            'process, pass classes={FIELD: ["nose", "left_eye", ...]}'
        )
        raise StateError(
            f'{self.name}: pairs="{NAMES}": {why}. Give the numbers, such as pairs=[(1, 2), (3, '
            "4)]",
            op=self.name,
        )

    def declare_items(self, state: State) -> State:
        """Return the state unchanged.

        Raises:
            StateError: the first field after the coordinates is not the integer `keypoint`, besides
                `Op.declare_items`'s reasons.
        """
        state = super().declare_items(state)
        part = state.items[1] if len(state.items) > 1 else None
        numbers = part is not None and np.dtype(part.dtype).kind in "iu" and part.width == 1
        if part is None or part.name != PART or not numbers:
            raise StateError(
                f"{self.name}: expected keypoints whose first field is the integer {PART!r}, as "
                f"packing COCO and YOLO makes them, got {state}; in a schema, write "
                'schema.keypoints(fields={"keypoint": "int64", ...})',
                op=self.name,
            )
        return state


def swap_keypoints(*values: Value, pairs: Pairs | str, where_flipped: bool = False) -> Any:
    """Swap the numbers of keypoints of a pipeline; see `SwapKeypoints`.

    Args:
        values: keypoints.
        pairs: as for `SwapKeypoints`.
        where_flipped: swap only in samples that an op has mirrored; each value is then a result of
            `horizontal_flip`, `vertical_flip`, `transpose` or `mirror`.

    Raises:
        BuildError: with `where_flipped`, a value is not a result of such an op.
    """
    if not where_flipped:
        return SwapKeypoints(pairs)(*values)
    swap = SwapKeypoints(pairs)
    swapped = tuple(_where_flipped(swap, value) for value in values)
    return swapped[0] if len(swapped) == 1 else swapped


def swap_last(results: Any, pairs: Pairs | str | None) -> Any:
    """Return the results of an op that mirrors, the last of them with its sides swapped.

    Args:
        results: keypoints, or values of which the last is keypoints.
        pairs: as for `SwapKeypoints`; None: nothing is swapped.
    """
    if pairs is None:
        return results
    if not isinstance(results, tuple):
        return swap_keypoints(results, pairs=pairs, where_flipped=True)
    return (*results[:-1], swap_keypoints(results[-1], pairs=pairs, where_flipped=True))


def _where_flipped(swap: SwapKeypoints, value: Value) -> Any:
    made_by = value.tracer.made_by(value) if isinstance(value, Value) else None
    if made_by is None or not made_by.mirrors:
        found = "another value" if isinstance(value, Value) else type(value).__name__
        if made_by is not None:
            found = f"the result of {made_by.name}"
        raise BuildError(
            "swap_keypoints: where_flipped=True: expected keypoints as horizontal_flip, "
            f"vertical_flip, transpose or mirror returned them, got {found}; call swap_keypoints "
            "right after the mirror"
        )
    if made_by.mirrors == "always":
        return swap(value)
    tracer = value.tracer
    flipped = tracer.expr("eq", tracer.decided(value, made_by.mirrors), 1)
    (result,) = tracer.branch(
        flipped, lambda: swap(value), lambda: value, lambda one, other: [(one, other)]
    )
    return result
