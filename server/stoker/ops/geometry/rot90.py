"""Turn by quarter turns, image and mask alike, as `numpy.rot90`: counter-clockwise.

Draw 0 decides with probability p whether to turn; draw 1 selects one of `turns`, all equally
likely. The record's `turns` is the number of quarter turns, 0 if p decided against it. An odd
number swaps height and width, so the size differs from row to row, unless the image is square or
all rows swap alike.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, cast

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.flips import swapped
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import is_integer, refuse
from stoker.ops.contract.parameters import OwnRule, Probability
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.ops.kernels.points import turned as turned_by
from stoker.ops.kernels.reorder import reorder, turned
from stoker.ops.kernels.turn_floats import reorder_floats
from stoker.rng.draws import bernoulli, integers


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    choice = int(integers(key, 1, int(params["count"])))
    record["turns"] = params["turns"][choice] if bernoulli(key, 0, params["p"]) else 0


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    height, width = src.shape[0], src.shape[1]
    size, walk = turned(height, width, int(record["turns"]))
    reorder(src, dst, size, walk)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    height, width = src.shape[0], src.shape[1]
    size, walk = turned(height, width, int(record["turns"]))
    reorder_floats(src, dst, size, walk)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = np.rot90(src, int(record["turns"]))


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return (width, height) if record["turns"] % 2 == 1 else (height, width)


def _turns(op: str, value: object) -> tuple[int, ...]:
    """Return the quarter turns to choose from, each once, in order."""
    items: tuple[Any, ...] = tuple(value) if isinstance(value, Sequence) else (value,)
    if items and all(is_integer(v) and 0 <= v <= 3 for v in items):
        return tuple(sorted(set(items)))
    raise refuse(op, "turns", "an integer from 0 to 3, or several", value)


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    return turned_by(int(record["turns"]), sizes[0], sizes[1])


def _padded(turns: tuple[int, ...]) -> tuple[Any, ...]:
    return len(turns), (*turns, *[0] * (4 - len(turns)))


TURNS: Final = OwnRule(
    _turns, "an integer from 0 to 3, or several", (("count", "i4"), ("turns", "u1", (4,))), _padded
)


@register
class Rot90(Op):
    """Turn by quarter turns."""

    turns: Annotated[int | tuple[int, ...], TURNS, "quarter turns, each as likely"] = (0, 1, 2, 3)
    p: Probability = 0.5

    image_dtypes = ANY_DTYPE
    examples = ({}, {"turns": 3, "p": 1})
    picture = {"turns": (1,)}
    varied = {}
    random = True
    record = np.dtype([("turns", "u1")])
    kernels = {
        "image": Kernel(_run, _plain),
        "mask": Kernel(_run, _plain),
    }
    floats = {"image": Kernel(_run_floats, _plain)}
    draw = staticmethod(_draw)
    out_size = staticmethod(_out_size)
    forward = staticmethod(_forward)
    affine = True
    rescale = staticmethod(keep_record)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states whose sides may be swapped."""
        self.require_pixels(states)
        odd = [turn % 2 == 1 for turn in cast(tuple[int, ...], self.turns)]
        kept, swaps = self.p < 1.0 or not all(odd), self.p > 0.0 and any(odd)
        return tuple(swapped(state, kept, swaps) for state in states), 0


rot90 = function(Rot90)
