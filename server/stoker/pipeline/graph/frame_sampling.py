"""Clips: which frames of a clip a row has, as part of a graph. Pure data and arithmetic.

A row of a pipeline with a `FrameSampling` is computed frame by frame, with the same draws for each
frame. So every line of the pipeline describes one frame, and the frames share each decision.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from stoker.pipeline.graph.nodes import Name
from stoker.protocol.errors import SampleError
from stoker.rng.draws import integers
from stoker.rng.row import Row
from stoker.rng.streams import frozen_key, make_key, stream_key

MAX_FRAMES: Final = 1024
MAX_STRIDE: Final = 2**31 - 1

Start = Literal["random", "center"] | Annotated[int, msgspec.Meta(ge=0, le=MAX_STRIDE)]
Short = Literal["repeat", "loop", "error"]


class FrameSampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Temporal sampling: `frames` frames of a clip, `stride` frames apart.

    Attributes:
        frames: frames of a row.
        stride: distance of neighboring frames in the clip.
        start: the first frame: "random" draws it, "center" has as many unused frames before as
            after, or one less; a number is that frame, from 0.
        short: if the clip ends before the last frame: "repeat" its last frame, "loop" from its
            first frame, or "error".
        by: integer field that is equal in the frames of a clip, which follow each other.
        stream: stream name of the draw; None if nothing is drawn.
        shared: whether all views of a position share the draw.
    """

    frames: Annotated[int, msgspec.Meta(ge=1, le=MAX_FRAMES)]
    stride: Annotated[int, msgspec.Meta(ge=1, le=MAX_STRIDE)]
    start: Start
    short: Short
    by: Name
    stream: Name | None
    shared: bool = False

    @property
    def span(self) -> int:
        """From the first frame to the last, both included."""
        return (self.frames - 1) * self.stride + 1

    def numbers(self, count: int, row: Row, freeze: int | Literal["epoch"] | None) -> list[int]:
        """Return the frames of a row, from 0.

        Draw 0 of the stream is an integer below the number of starts at which the whole span fits
        into the clip; otherwise the start is 0.

        Args:
            count: frames of the clip.
            row: the row; its id is that of the clip.
            freeze: of the stream; None if it is not frozen.

        Raises:
            SampleError: the clip is too short and `short` is "error".
        """
        first = self._first(max(count - self.span + 1, 1), row, freeze)
        found = [first + number * self.stride for number in range(self.frames)]
        if found[-1] < count:
            return found
        if self.short == "error":
            raise SampleError(
                f"sample {row.id}: the clip has {count} frames, but {self.frames} frames with a "
                f"stride of {self.stride} from frame {first} need {found[-1] + 1}: sample fewer, "
                'or give short="repeat" or "loop"',
                id=row.id,
            )
        if self.short == "loop":
            return [number % count for number in found]
        return [min(number, count - 1) for number in found]

    def _first(self, starts: int, row: Row, freeze: int | Literal["epoch"] | None) -> int:
        if isinstance(self.start, int):
            return self.start
        if self.stream is None:
            return (starts - 1) // 2
        view = 0 if self.shared else row.view
        key = make_key(row.seed, stream_key(self.stream), row.id, row.epoch, row.visit, view)
        return int(integers(frozen_key(key, freeze), 0, starts))
