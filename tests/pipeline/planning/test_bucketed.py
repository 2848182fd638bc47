"""Pipelines for buckets: sizes that follow the bucket, joint targets, numbers of the crop."""

import numpy as np
import pytest
from skimage import data

from stoker import ops
from stoker.ops.contract.states import State
from stoker.pipeline import pipeline, pipelines
from stoker.pipeline.compiled.machine import address_of
from stoker.pipeline.compiled.program import write_program
from stoker.pipeline.planning.bucket_graph import Size
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError

PHOTO = data.astronaut()[:300, :400].copy()
MASK = (PHOTO.astype(int).sum(2) // 192).astype(np.uint8)


@pipeline
def fitted(sample):
    image, mask, boxes = ops.fit_bucket(sample.image, sample.mask, sample.boxes, crop="random")
    numbers = ops.crop_numbers(sample.image, image)
    image, mask, boxes = ops.horizontal_flip(image, mask, boxes)
    return {"image": ops.normalize(image, layout="CHW"), "mask": mask, "boxes": boxes, **numbers}


@pipeline
def aware(sample, ctx):
    image = ops.fit_bucket(sample.image)
    if ctx.bucket_width > ctx.bucket_height:
        image = ops.invert(image, p=1.0)
    image = ops.random_crop(image, size=(ctx.bucket_height - 8, ctx.bucket_width // 2))
    return {"image": image, "width": ctx.bucket_width}


def sample():
    return {"image": PHOTO, "mask": MASK, "boxes": {"xyxy": [[50, 60, 150, 200]]}}


@pytest.mark.parametrize("bucket", [(128, 64), (64, 128), (96, 96)])
def test_outputs_have_the_buckets_size(bucket):
    width, height = bucket
    made, fast = (fitted(sample(), bucket=bucket, id=4, compiled=c) for c in (False, True))
    assert made["image"].shape == (3, height, width)
    assert made["mask"].shape == (height, width)
    assert (made["original_height"], made["original_width"]) == (300, 400)
    for name, value in made.items():
        for key, array in value.items() if name == "boxes" else [(name, value)]:
            other = fast["boxes"][key] if name == "boxes" else fast[name]
            assert np.array_equal(array, other), name


def test_the_numbers_say_where_the_crop_lies():
    """Enough of the resized picture, moved by (crop_top, crop_left), is the output."""
    found = {"crop_top": set(), "crop_left": set()}

    @pipeline
    def plain(sample):
        image = ops.fit_bucket(sample.image, crop="random")
        return {"image": image, **ops.crop_numbers(sample.image, image)}

    for number in range(12):
        made = plain({"image": PHOTO}, bucket=(100, 100), id=number)
        left, top = int(made["crop_left"]), int(made["crop_top"])
        for name, places in found.items():
            places.add(int(made[name]))
        whole = ops_resize(PHOTO, 100, 133)
        part = whole[top : top + 100, left : left + 100].astype(int)
        assert np.abs(part - made["image"]).mean() < 6
    assert found["crop_top"] == {0}
    assert len(found["crop_left"]) > 5
    assert max(found["crop_left"]) <= 33


def test_numbers_are_those_of_a_crop():
    @pipeline
    def flipped(sample):
        image = ops.horizontal_flip(sample.image)
        return {"image": image, **ops.crop_numbers(sample.image, image)}

    @pipeline
    def unmade(sample):
        return {**ops.crop_numbers(sample.image, sample.image)}

    @pipeline
    def cropped(sample):
        image = ops.random_resized_crop(sample.image, size=50, scale=(0.2, 0.4))
        return {"image": image, **ops.crop_numbers(sample.image, image)}

    made = cropped({"image": PHOTO}, id=3)
    assert (made["original_height"], made["original_width"]) == (300, 400)
    assert made["crop_top"] + made["crop_left"] > 0
    with pytest.raises(BuildError, match="decision of horizontal_flip has no number 'top'"):
        flipped.plan_for({"image": PHOTO})
    with pytest.raises(BuildError, match=r"top: expected the result of an op that decided it"):
        unmade.graph()
    with pytest.raises(
        BuildError, match="crop_numbers: expected an image and the result of fit_bucket"
    ):
        ops.crop_numbers(PHOTO, PHOTO)


def ops_resize(image, height, width):
    from PIL import Image  # noqa: PLC0415 - the independent reference

    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))


def test_facts_of_the_bucket_decide_sizes_and_branches():
    wide, high = (aware({"image": PHOTO}, bucket=bucket) for bucket in ((128, 64), (64, 128)))
    assert wide["image"].shape == (56, 64, 3)
    assert high["image"].shape == (120, 32, 3)
    assert (int(wide["width"]), int(high["width"])) == (128, 64)
    assert wide["image"].mean() + high["image"].mean() == pytest.approx(255, abs=60)


def test_plans_of_two_buckets_share_their_machine_code():
    states = {"image": State("image", "uint8", (None, None, 3), (400, 400, 3))}
    one, other = (
        bind(aware.graph(), states, bucket=Size(*size)) for size in ((64, 128), (128, 96))
    )
    called = [
        [address_of(call) for call in write_program(plan).calls.values()] for plan in (one, other)
    ]
    assert called[0] == called[1]
    assert called[0]
    assert one.pipeline_id == other.pipeline_id == aware.pipeline_id
    assert one.outputs != other.outputs


def test_lists_fit_to_buckets_too():
    fit = ops.FitBucket(crop="random")
    both = pipelines({"image": [fit], "mask": [fit]})
    made = both({"image": PHOTO, "mask": MASK}, bucket=(64, 96), id=3)

    @pipeline
    def joint(sample):
        image, mask = ops.fit_bucket(sample.image, sample.mask, crop="random")
        return {"image": image, "mask": mask}

    again = joint({"image": PHOTO, "mask": MASK}, bucket=(64, 96), id=3)
    assert made["image"].shape[:2] == made["mask"].shape == (96, 64)
    assert all(np.array_equal(made[name], again[name]) for name in made)


def test_what_does_not_fit_a_bucket_is_named():
    @pipeline
    def cropped(sample, ctx):
        image = ops.fit_bucket(sample.image)
        return {"image": ops.random_crop(image, size=(ctx.bucket_height - 64, 32))}

    assert cropped({"image": PHOTO}, bucket=(64, 128))["image"].shape == (64, 32, 3)
    with pytest.raises(BuildError, match=r"test_bucketed.py:\d+: .*random_crop: expected size"):
        cropped({"image": PHOTO}, bucket=(128, 64))
