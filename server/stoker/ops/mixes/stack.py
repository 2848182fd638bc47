"""Put several values of one shape into one array, with a new first axis. No randomness."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.folds import Fold
from stoker.ops.contract.kernel_forms import FoldKernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.runs import copy_run

KINDS = ("image", "mask", "array", "label", "scalar")


@kernel
def _run(
    src: Any, place: int, count: int, dst: Any, params: Any, record: Any, scratch: Any
) -> None:
    copy_run(src.reshape(src.size), 0, dst.reshape(dst.size), place * src.size, src.size)


def _plain(srcs: Sequence[np.ndarray], dst: np.ndarray, params: Any, record: Any) -> None:
    dst[...] = np.stack(srcs).reshape(dst.shape)


@register
class Stack(Fold):
    """Put values of one shape into one array."""

    image_dtypes = ANY_DTYPE
    folds = dict.fromkeys(KINDS, FoldKernel(_run, _plain))

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return an array with one more side."""
        self.require_alike(states)
        for state in states:
            if not state.is_fixed:
                raise StateError(
                    f"{self.name} needs values whose size is the same for every sample, got "
                    f"{state}: crop or resize them before",
                    op=self.name,
                )
        shape = tuple(side for side in states[0].shape if side is not None)
        return (State.fixed("array", states[0].dtype, (len(states), *shape)),), 0


stack = function(Stack)
