"""Lists per field: the two proposals of libffcv/ffcv#86, which decisions they share, errors."""

from __future__ import annotations

import numpy as np
import pytest

from stoker import ops
from stoker.pipeline import Row, pipeline, pipelines, scope, sync_seed
from stoker.protocol.errors import BuildError


@pytest.fixture(scope="module")
def fields(photo):
    """The mask is made of the image, so any difference in geometry shows in its pixels."""
    image = photo[0][:200, :260].copy()
    return {"image": image, "mask": image[..., 1].copy()}


def test_synchronize_seed_of_ffcv_86(fields, rows, both):
    """SynchronizeSeed before each transform to be synchronized; the image has one transform more.

    The crop of an image is filtered and that of a mask is not, so nearest neighbors are asked for.
    """
    crop = {"size": 48, "interpolation": "nearest"}
    joint = pipelines(
        {
            "image": [
                sync_seed("crop"),
                ops.RandomResizedCrop(**crop),
                ops.ColorJitter(0.2, 0.3),
                sync_seed("flip"),
                ops.HorizontalFlip(),
            ],
            "mask": [
                sync_seed("crop"),
                ops.RandomResizedCrop(**crop),
                sync_seed("flip"),
                ops.HorizontalFlip(),
            ],
        }
    )
    plan = joint.plan_for(fields)
    assert plan.streams == ("crop/color_jitter", "crop/random_resized_crop", "flip/horizontal_flip")

    plain = pipelines(
        {
            "image": [
                sync_seed("crop"),
                ops.RandomResizedCrop(**crop),
                sync_seed("flip"),
                ops.HorizontalFlip(),
            ],
            "mask": [ops.unlinked],
        }
    )
    jittered = 0
    for row, (image, mask) in zip(rows, both(plan, rows, list(fields.values())), strict=True):
        unjittered = plain(fields, **row._asdict())["image"]
        assert np.array_equal(mask, unjittered[..., 1])  # in step, and the jitter disturbs nothing
        jittered += not np.array_equal(image, unjittered)
    assert jittered == len(rows)


def test_shared_instance_of_ffcv_86(fields, rows, both):
    """`flip` is in both lists and decides once; two instances decide apart."""
    flip = ops.HorizontalFlip()
    shared = pipelines(
        {"image": [ops.Invert(), flip], "mask": [flip, ops.VerticalFlip(), ops.unlinked]}
    )

    @pipeline
    def by_hand(sample):
        with scope("image"):
            image = ops.invert(sample.image)
        image, mask = ops.horizontal_flip(image, sample.mask, stream="horizontal_flip")
        mask = ops.vertical_flip(mask, stream="mask/vertical_flip")
        return {"image": image, "mask": ops.unlinked(mask)}

    # The decision sees the size of the value that it was first made for; so do both here.
    assert shared.plan_for(fields).streams == by_hand.plan_for(fields).streams
    assert shared.pipeline_id == by_hand.pipeline_id

    apart = pipelines(
        {"image": [ops.HorizontalFlip()], "mask": [ops.unlinked, ops.HorizontalFlip()]}
    )
    plan = apart.plan_for(fields)
    assert plan.streams == ("image/horizontal_flip", "mask/horizontal_flip")
    image, mask = fields["image"], fields["mask"]
    flipped = [
        (np.array_equal(a, image[:, ::-1]), np.array_equal(b, mask[:, ::-1]))
        for a, b in both(plan, [Row(1, k, 0) for k in range(24)], [image, mask])
    ]
    assert len(set(flipped)) == 4


def test_functions_and_fields_left_out(fields):
    def smaller(value):
        return ops.resize(value, size=(32, 32))

    made = pipelines({"image": (smaller, ops.Invert(p=1.0)), "mask": [ops.unlinked], "label": None})
    out = made(fields | {"label": 3}, id=4)
    assert list(out) == ["image", "mask"]
    assert np.array_equal(out["mask"], fields["mask"])
    assert out["image"].shape == (32, 32, 3)
    assert made.plan_for(fields).streams == ("image/invert",)


def test_what_lists_refuse():
    def refused(message, lists):
        with pytest.raises(BuildError, match=r"test_lists.py:\d+: " + message):
            pipelines(lists)

    refused(r"pipelines: expected a dict of fields and lists", [ops.Invert()])
    refused(r"pipelines: expected a dict of fields and lists", {"image": ops.Invert()})
    refused(
        r"pipelines: field 'image', step 1: invert would draw from stream 'image/invert', as "
        r"another invert does. Put sync_seed",
        {"image": [ops.Invert(), ops.Invert()]},
    )
    one, two = ops.HorizontalFlip(), ops.HorizontalFlip(0.1)
    refused(
        r"pipelines: field 'image', step 1: horizontal_flip would draw from stream 'horizontal_fl",
        {"image": [one, two], "mask": [two, one]},
    )
    refused(r"pipelines: field 'a', step 0: expected an op, .* got str", {"a": ["flip"]})
    refused(
        r"pipelines: field 'a', step 0: expected one value back, got tuple", {"a": [lambda v: ()]}
    )
    with pytest.raises(BuildError, match=r"sync_seed: expected a name such as 'crop', got 3"):
        sync_seed(3)
