"""`RandomResizedCrop` of arrays: the op of a Stoker pipeline, run on the rows of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stoker import ops
from stoker.compat.ffcv.engine_operation import EngineOperation
from stoker.compat.ffcv.pipeline.allocation_query import Allocation
from stoker.compat.ffcv.pipeline.state import State
from stoker.protocol.errors import BuildError


class RandomResizedCrop(EngineOperation):
    """A random box of each image, resized to a square.

    `RandomResizedCropRGBImageDecoder` does the same while it decodes, in several threads.

    Args:
        scale: range of the box's part of the area.
        ratio: range of its width divided by its height.
        size: side of the result.
    """

    def __init__(self, scale: tuple[float, float], ratio: tuple[float, float], size: int) -> None:
        self.scale = scale
        self.ratio = ratio
        self.size = size

    def define(self, stream: str) -> Callable[[Any], Any]:
        """Return the crop as a function of a value of a pipeline."""
        (least, most), (thin, wide), size = self.scale, self.ratio, (self.size, self.size)

        def crop(image: Any) -> Any:
            return ops.random_resized_crop(
                image, size=size, scale=(least, most), ratio=(thin, wide), stream=stream
            )

        return crop

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the state with the new sides.

        Raises:
            BuildError: it does not get images as arrays.
        """
        if not previous_state.is_array or len(previous_state.shape) != 3:
            raise BuildError(
                f"RandomResizedCrop: expected arrays (H, W, C), got {previous_state}: put it "
                "after the decoder and before ToTensor"
            )
        shape = (self.size, self.size, previous_state.shape[2])
        return replace(previous_state, shape=shape), None
