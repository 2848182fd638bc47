"""sample_frames: which frames a row has, in process, in a graph; and what it refuses."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
import skimage.data
from order_page import integer

from stoker import ops
from stoker.pipeline import (
    Graph,
    Row,
    bind,
    explain,
    outputs,
    pipeline,
    sample_frames,
    scope,
    shared_views,
)
from stoker.pipeline.authoring.pipeline import branching
from stoker.pipeline.authoring.sample_states import states_by_name
from stoker.pipeline.graph.frame_sampling import FrameSampling
from stoker.pipeline.graph.normal import pipeline_id
from stoker.protocol.errors import BuildError

PHOTO = skimage.data.astronaut()
FRAMES = [np.ascontiguousarray(PHOTO[k : k + 60, 2 * k : 2 * k + 80]) for k in range(20)]
VECTORS = json.loads((Path(__file__).parents[3] / "docs/contracts/vectors/clips.json").read_text())


def by_the_page(clip, count, row):
    """The frames of a row, by docs/contracts/graph.md."""
    starts = max(count - (clip["frames"] - 1) * clip["stride"], 1)
    if clip["start"] == "center":
        first = (starts - 1) // 2
    elif clip["start"] == "random":
        view = 0 if clip["shared"] else row["view"]
        lane = row["visit"] * 2**16 + view
        seed = int(row["seed"], 16)
        first = integer(seed, clip["stream"], row["id"], row["epoch"], lane, 0, starts)
    else:
        first = clip["start"]
    found = [first + k * clip["stride"] for k in range(clip["frames"])]
    short = {"repeat": lambda n: min(n, count - 1), "loop": lambda n: n % count}[clip["short"]]
    return [number if number < count else short(number) for number in found]


@pytest.mark.parametrize("vector", VECTORS["clips"])
def test_vectors(vector):
    row = {**vector["row"], "seed": int(vector["row"]["seed"], 16)}
    clip = msgspec.convert(vector["clip"], FrameSampling)
    assert clip.numbers(vector["count"], Row(**row), None) == vector["numbers"]
    assert by_the_page(vector["clip"], vector["count"], vector["row"]) == vector["numbers"]


@pipeline
def moved(sample):
    sample = sample_frames(sample, frames=3, stride=4)
    image, mask = ops.random_crop(sample.image, sample.mask, size=40)
    if sample.label == 1:
        image = ops.invert(image, p=1.0)
    return {"image": image, "mask": mask, "label": sample.label}


@pipeline
def one(sample):
    image, mask = ops.random_crop(sample.image, sample.mask, size=40)
    if sample.label == 1:
        image = ops.invert(image, p=1.0)
    return {"image": image, "mask": mask, "label": sample.label}


@pytest.mark.parametrize("compiled", [False, True])
def test_in_process_each_frame_is_that_frame_alone(compiled):
    masks = [frame[..., 0] // 64 for frame in FRAMES]
    fields = {"image": FRAMES, "mask": masks, "label": 1}
    seen = set()
    for number in range(6):
        row = moved(fields, id=number, seed=2, compiled=compiled)
        chosen = moved.graph().clip.numbers(len(FRAMES), Row(2, number, 0), None)
        assert row["image"].shape == (3, 40, 40, 3)
        assert row["label"].tolist() == [1, 1, 1]
        for place, frame in enumerate(chosen):
            alone = one({"image": FRAMES[frame], "mask": masks[frame], "label": 1}, id=number,
                        seed=2)  # fmt: skip
            for name, value in alone.items():
                assert np.array_equal(row[name][place], value), name
        seen.add(chosen[0])
    assert len(seen) > 2


def test_the_start_can_be_frozen_and_shared_by_views():
    @pipeline
    def starts(sample):
        with shared_views(), scope("clip"):
            sample = sample_frames(sample, frames=2, stride=3)
        return {"image": sample.image}

    clip = starts.graph().clip
    assert (clip.stream, clip.shared) == ("clip/sample_frames", True)
    views = [starts({"image": FRAMES}, id=4, view=view)["image"] for view in range(3)]
    assert all(np.array_equal(view, views[0]) for view in views)
    frozen = [
        starts({"image": FRAMES}, id=n, freeze={"clip/sample_frames": 1})["image"] for n in (1, 2)
    ]
    assert np.array_equal(*frozen)
    others = [starts({"image": FRAMES}, id=n)["image"] for n in range(9)]
    assert not all(np.array_equal(other, frozen[0]) for other in others)


def test_a_graph_keeps_its_clip_and_only_then_another_identity():
    graph = moved.graph()
    assert Graph.from_data(graph.to_data()).to_data() == graph.to_data()
    assert Graph.from_data(graph.to_data()).clip == graph.clip
    assert "clip" not in one.graph().to_data()
    plain = msgspec.structs.replace(graph, clip=None)
    assert pipeline_id(plain) == one.pipeline_id != moved.pipeline_id


@pytest.mark.parametrize(
    "changes",
    [
        {"frames": 0}, {"frames": 1025}, {"stride": 0}, {"start": -1}, {"start": "end"},
        {"short": "stop"}, {"by": ""}, {"by": 3}, {"frames": 1.5}, {"more": 1},
    ],
)  # fmt: skip
def test_a_graph_with_another_clip_is_refused(changes):
    data = moved.graph().to_data()
    data["clip"].update(changes)
    with pytest.raises(BuildError, match="graph: "):
        Graph.from_data(data)


def twice(sample):
    return sample_frames(sample_frames(sample, frames=2), frames=2)


def of_an_image(sample):
    return sample_frames(sample.image, frames=2)


@branching
def in_a_branch(sample):
    if sample.label == 1:
        sample = sample_frames(sample, frames=2)
    return sample


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (twice, "it is called twice"),
        (of_an_image, "expected the sample that the pipeline function received, got TracedValue"),
        (in_a_branch, "inside an `if`; call it before"),
        (lambda s: sample_frames(s, frames=0), "frames: expected an integer from 1 to 1024, got 0"),
        (lambda s: sample_frames(s, frames=2, start="middle"), 'start: expected "random", "cen'),
        (
            lambda s: sample_frames(s, frames=2, short="wrap"),
            'short: expected "repeat", "loop" or "er',
        ),
        (lambda s: sample_frames(s, frames=2, start=0, stream="x"), "only start='random' draws"),
    ],
)
def test_wrong_calls_are_errors_with_the_line(write, message):
    @pipeline
    def wrong(sample):
        return {"image": write(sample).image}

    with pytest.raises(BuildError, match=message) as caught:
        wrong.graph()
    assert "test_clips.py" in str(caught.value)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda s: s.boxes, "output 'x': it is boxes, whose number differs from frame to frame"),
        (lambda s: outputs.pad(s.image), "output 'x': its form is pad, and frames are stacked"),
        (lambda s: ops.mixup(s.image), "output 'x': mixup mixes rows"),
    ],
)
def test_outputs_that_cannot_be_stacked_are_refused(write, message):
    @pipeline
    def wrong(sample):
        return {"x": write(sample_frames(sample, frames=2)), "image": sample.image}

    boxes = {"xyxy": np.zeros((1, 4), np.float32)}
    with pytest.raises(BuildError, match=message):
        bind(wrong.graph(), states_by_name({"image": PHOTO, "boxes": boxes}))


def test_explain_says_which_frames():
    plan = bind(moved.graph(), states_by_name({"image": PHOTO, "mask": PHOTO[..., 0], "label": 0}))
    assert (
        "rows: 3 frames of a clip (rows of one 'clip'), stride 4, start drawn from "
        "'sample_frames'; too short: repeat. The steps are those of each frame\nsteps:"
    ) in explain(plan)
    assert "frames of a clip" not in explain(
        bind(one.graph(), states_by_name({"image": PHOTO, "mask": PHOTO[..., 0], "label": 0}))
    )
