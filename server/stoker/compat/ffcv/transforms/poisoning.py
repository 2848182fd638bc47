"""`Poison`: a pattern over the images of some samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stoker.compat.ffcv.pipeline.allocation_query import Allocation
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.protocol.errors import BuildError


class Poison(Operation):
    """Blend a pattern over the images of some samples; works in place on arrays.

    Args:
        mask: the pattern, (H, W, C) levels.
        alpha: its opacity from 0 to 1, (H, W), or one number.
        indices: ids of the samples.
        clamp: bounds of the results, which are rounded down.
    """

    def __init__(
        self,
        mask: np.ndarray,
        alpha: np.ndarray | float,
        indices: Sequence[int],
        clamp: tuple[int, int] = (0, 255),
    ) -> None:
        self.mask = np.asarray(mask)
        self.alpha = np.asarray(alpha)
        self.indices = np.sort(np.asarray(indices, np.int64))
        self.clamp = clamp

    def generate_code(self) -> Callable[..., Any]:
        """Return the function that blends."""
        parallel_range = Compiler.get_iterable()
        chosen, (low, high) = self.indices, self.clamp
        opacity = np.broadcast_to(self.alpha, self.mask.shape[:2]).astype(np.float64)[..., None]
        added, kept = self.mask * opacity, np.ascontiguousarray(1.0 - opacity)

        def poison(images: Any, dst: Any, indices: Any) -> Any:
            for i in parallel_range(images.shape[0]):
                place = np.searchsorted(chosen, indices[i])
                if place < len(chosen) and chosen[place] == indices[i]:
                    for y in range(images.shape[1]):
                        for x in range(images.shape[2]):
                            for c in range(images.shape[3]):
                                level = images[i, y, x, c] * kept[y, x, 0] + added[y, x, c]
                                images[i, y, x, c] = min(max(level, low), high)
            return images

        poison.is_parallel = True  # type: ignore[attr-defined]
        poison.with_indices = True  # type: ignore[attr-defined]
        return poison

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the same state; works in place.

        Raises:
            BuildError: the pattern or its opacity does not have the size of the images.
        """
        if not previous_state.is_array or previous_state.shape != self.mask.shape:
            raise BuildError(
                f"Poison: expected arrays of shape {self.mask.shape}, as its mask has, got "
                f"{previous_state}: give a mask of the size of the images"
            )
        if self.alpha.shape not in {(), self.mask.shape[:2]}:
            raise BuildError(
                f"Poison: expected alpha to be a number or of shape {self.mask.shape[:2]}, got "
                f"{self.alpha.shape}"
            )
        return previous_state, None
