"""`sample_frames`: a pipeline whose rows are several frames of a clip.

    @pipeline
    def train(sample):
        sample = sample_frames(sample, frames=16, stride=2)
        image = ops.random_resized_crop(sample.image, size=(112, 112))
        return {"clip": image, "label": sample.label}

Every line describes one frame; the frames of a row share all decisions, and its outputs have them
as their first side: `clip` is (16, 112, 112, 3). A call in process gets lists of frames, of a clip
or of a sample whose frames share one decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec
import numpy as np

from stoker.ops.contract.numbers import settled
from stoker.pipeline.graph.frame_sampling import MAX_FRAMES, FrameSampling
from stoker.pipeline.tracing.naming import scoped, views_are_shared
from stoker.pipeline.tracing.trace import GraphTracer
from stoker.pipeline.tracing.value_refusals import fault
from stoker.pipeline.tracing.values import TracedSample, tracer_of
from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import UsageError
from stoker.rng.row import Row
from stoker.rng.streams import check_stream_name

NAME: Final = "sample_frames"
EXPECTED: Final = {
    "frames": f"an integer from 1 to {MAX_FRAMES}",
    "stride": "an integer from 1",
    "start": '"random", "center" or the number of a frame, from 0',
    "short": '"repeat", "loop" or "error"',
    "by": "the name of a field",
}
_TYPES: Final = {field.name: field.type for field in msgspec.structs.fields(FrameSampling)}
T = TypeVar("T")


def sample_frames(
    sample: T,
    *,
    frames: int,
    stride: int = 1,
    start: str | int = "random",
    short: str = "repeat",
    by: str = "clip",
    stream: str | None = None,
) -> T:
    """Make each row of the pipeline several frames of a clip; see `graph.frame_sampling`.

    The samples of a stream are then clips, and their ids count clips.

    Args:
        sample: the sample that the pipeline received.
        frames: frames of a row, 1 to 1,024.
        stride: distance of neighboring frames in the clip, from 1.
        start: the first frame: "random", "center", or its number.
        short: what a clip that ends too early does: "repeat" its last frame, "loop" to its first,
            or "error", which makes it a bad sample.
        by: integer field of the dataset that is equal in the frames of a clip.
        stream: stream name of the draw; by default "sample_frames".

    Returns:
        The sample; its fields are those of one frame.

    Raises:
        BuildError: it is called twice, inside an `if`, or without the pipeline's sample, or an
            argument is out of range.
    """
    if not isinstance(sample, TracedSample):
        raise fault(
            f"{NAME}: expected the sample that the pipeline function received, got "
            f"{type(sample).__name__}: call sample = {NAME}(sample, frames=16)"
        )
    tracer = cast("GraphTracer", tracer_of(sample))
    if tracer.clip is not None:
        raise fault(f"{NAME}: it is called twice; a pipeline samples the frames of a clip once")
    if tracer.block:
        raise fault(f"{NAME}: it is called inside an `if`; call it before, at the top")
    given: dict[str, Any] = {
        "frames": frames,
        "stride": stride,
        "start": start,
        "short": short,
        "by": by,
    }
    drawn = start == "random"
    name = scoped(check_stream_name(NAME if stream is None else stream)) if drawn else None
    if stream is not None and not drawn:
        raise fault(f"{NAME}: stream={stream!r}: only start='random' draws; leave it out")
    for key, value in given.items():
        try:
            msgspec.convert(settled(value), analyzed(_TYPES[key]))
        except msgspec.ValidationError:
            raise fault(f"{NAME}: {key}: expected {EXPECTED[key]}, got {value!r}") from None
    tracer.clip = FrameSampling(
        **{key: settled(value) for key, value in given.items()},
        stream=name,
        shared=views_are_shared(),
    )
    return sample


def is_frames(value: object) -> bool:
    """Return whether a field is a list of frames: arrays with at least two sides."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(frame, np.ndarray) and frame.ndim > 1 for frame in value)
    )


def split_frames(name: str, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of each frame; a field without frames is shared by all of them.

    Args:
        name: the pipeline's name, for messages.
        fields: field name -> value, or list of frames.

    Raises:
        UsageError: the lists differ in length, or the frames of a list differ in shape or dtype.
    """
    lists = {field: value for field, value in fields.items() if is_frames(value)}
    lengths = {field: len(frames) for field, frames in lists.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{field} has {length}" for field, length in lengths.items())
        raise UsageError(f"{name}: expected as many frames in every list of frames, but {said}")
    for field, frames in lists.items():
        forms = {(frame.shape, frame.dtype.name) for frame in frames}
        if len(forms) > 1:
            said = " and ".join(sorted(f"{dtype} {shape}" for shape, dtype in forms))
            raise UsageError(
                f"{name}: field {field!r}: expected frames of one shape and dtype, as they share "
                f"one decision, got {said}; resize them first"
            )
    count = next(iter(lengths.values()), 1)
    return [
        {**fields, **{field: frames[index] for field, frames in lists.items()}}
        for index in range(count)
    ]


def chosen_frames(
    name: str,
    clip: FrameSampling,
    frames: Sequence[Mapping[str, Any]],
    fields: Mapping[str, Any],
    row: Row,
    freeze: Mapping[str, Any],
) -> list[Mapping[str, Any]]:
    """Return the frames of a row that is computed in process.

    Raises:
        SampleError: there are too few, and the pipeline makes that an error.
        UsageError: no field is a list of frames.
    """
    if not any(is_frames(value) for value in fields.values()):
        raise UsageError(
            f"{name}: the pipeline samples the frames of a clip: pass a list of frames, as in "
            '{"image": [frame, frame, ...]}'
        )
    frozen = None if clip.stream is None else freeze.get(clip.stream)
    return [frames[number] for number in clip.numbers(len(frames), row, frozen)]


def stacked(rows: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Return the outputs of frames with the frames as their first side."""
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
