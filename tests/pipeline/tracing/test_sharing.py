"""Calls that share a stream name must have the same parameters."""

import numpy as np
import pytest

from stoker import ops
from stoker.pipeline import decide, pipeline, pipelines, sync_seed
from stoker.protocol.errors import BuildError
from stoker.rng.row import Row

IMAGE = np.arange(48 * 64 * 3, dtype=np.uint32).astype(np.uint8).reshape(48, 64, 3)
FIELDS = {"a": IMAGE, "b": IMAGE.copy()}


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (ops.RandomResizedCrop(24, scale=(0.1, 1.0)), ops.RandomResizedCrop(24, scale=(0.5, 1.0)),
         r"scale=\(0.5, 1.0\) here and scale=\(0.1, 1.0\) there"),
        (ops.RandomCrop(32), ops.RandomCrop(16), r"size=\(16, 16\) here and size=\(32, 32\) there"),
        (ops.Rotate(degrees=10), ops.Rotate(degrees=20), "degrees"),
        (ops.HorizontalFlip(p=0.5), ops.HorizontalFlip(p=0.8), "p=0.8 here and p=0.5 there"),
        (ops.ColorJitter(0.2), ops.ColorJitter(0.3), "brightness"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("way", ["stream", "sync_seed"])
def test_other_parameters_under_one_name(way, first, second, what):
    def by_lists():
        pipelines({"a": [sync_seed("s"), first], "b": [sync_seed("s"), second]}).graph()

    def by_streams():
        @pipeline
        def train(sample):
            return {"a": first(sample.a, stream="s"), "b": second(sample.b, stream="s")}

        train.graph()

    line = r"test_sharing\.py:\d+"
    message = rf"{line}: {first.name}: the call at .*{line} has .*{what}"
    with pytest.raises(BuildError, match=message):
        (by_lists if way == "sync_seed" else by_streams)()


def test_parameters_that_change_only_looks_may_differ():
    @pipeline
    def train(sample):
        a = ops.rotate(sample.a, degrees=30, stream="s", interpolation="bilinear", fill=255)
        b = ops.rotate(sample.b, degrees=30, stream="s", interpolation="nearest")
        return {"a": a, "b": b}

    decided = decide(train.plan_for(FIELDS), Row(0, 3, 0), sizes={"a": (48, 64), "b": (48, 64)})
    assert [entry["op"] for entry in decided] == ["rotate", "rotate"]
    assert decided[0]["record"] == decided[1]["record"]


def test_branches_of_one_if_may_differ():
    @pipeline
    def train(sample, ctx):
        if ctx.epoch == 0:
            image = ops.rotate(sample.a, degrees=5, stream="s")
        elif ctx.epoch == 1:
            image = ops.rotate(sample.a, degrees=20, stream="s")
        else:
            image = ops.rotate(sample.a, degrees=40, stream="s")
        return {"image": image}

    images = [train(FIELDS, id=1, epoch=epoch)["image"] for epoch in range(3)]
    assert len({image.tobytes() for image in images}) == 3


def test_a_branch_and_the_calls_around_it_may_not():
    @pipeline
    def train(sample, ctx):
        image = ops.rotate(sample.a, degrees=5, stream="s")
        if ctx.epoch == 0:
            image = ops.rotate(image, degrees=20, stream="s")
        return {"image": image}

    with pytest.raises(BuildError, match=r"rotate: the call at .* other parameters"):
        train.graph()


def test_equal_schedules_agree_and_others_do_not():
    @pipeline
    def agree(sample, ctx):
        a = ops.rotate(sample.a, degrees=10 + 20 * ctx.progress, stream="s")
        return {"a": a, "b": ops.rotate(sample.b, degrees=10 + 20 * ctx.progress, stream="s")}

    assert len(agree.graph().outputs) == 2

    @pipeline
    def differ(sample, ctx):
        a = ops.rotate(sample.a, degrees=10 + 20 * ctx.progress, stream="s")
        return {"a": a, "b": ops.rotate(sample.b, degrees=10 + 30 * ctx.progress, stream="s")}

    with pytest.raises(
        BuildError, match=r"other parameters \(another schedule or value of the row\)"
    ):
        differ.graph()


def test_another_op_may_share_the_name():
    @pipeline
    def train(sample):
        image = ops.horizontal_flip(sample.a, stream="s")
        return {"image": ops.vertical_flip(image, stream="s")}

    seen = {train(FIELDS, id=number)["image"].tobytes() for number in range(12)}
    assert seen == {IMAGE.tobytes(), IMAGE[::-1, ::-1].tobytes()}
