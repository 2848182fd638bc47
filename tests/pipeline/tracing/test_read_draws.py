"""Draws of ops as values: `flip.applied` and `ops.drawn` agree with the pixels, on both engines."""

import numpy as np
import pytest

from stoker import ops
from stoker.ops.contract.registry import registered
from stoker.ops.contract.units import switch_of
from stoker.pipeline import pipeline, random_apply
from stoker.protocol.errors import BuildError

IDS = range(24)
IMAGE = np.random.default_rng(5).integers(0, 256, (12, 18, 3), np.uint8)


def negative_if(number, switch):
    """Both are arrays of one."""
    return -number if switch[0] else number, switch


@pipeline
def told(sample):
    """Left and right are labels 0 and 1."""
    flip = ops.HorizontalFlip(p=0.5)
    image, label = flip(sample.image), sample.label
    if flip.applied:
        label = 1 - label
    signed, _ = ops.python(
        negative_if, sample.label, flip.applied, together=True, randomness="none"
    )
    return {"image": image, "label": label, "flipped": flip.applied, "signed": signed}


def rows(pipe, **fields):
    """Yield the rows of some ids, which are the same on both engines."""
    for number in IDS:
        plain, fast = (
            pipe({"image": IMAGE} | fields, id=number, seed=3, compiled=compiled)
            for compiled in (False, True)
        )
        for name, value in plain.items():
            assert np.array_equal(value, fast[name]), name
            assert value.dtype == fast[name].dtype
        yield plain


def test_a_switch_says_what_the_pixels_say():
    found = set()
    for row in rows(told, label=np.int64(1)):
        mirrored = np.array_equal(row["image"], IMAGE[:, ::-1])
        assert mirrored or np.array_equal(row["image"], IMAGE)
        assert row["flipped"].dtype == bool
        assert (row["flipped"], row["label"]) == (mirrored, 0 if mirrored else 1)
        assert row["signed"] == (-1 if mirrored else 1)
        found.add(mirrored)
    assert found == {False, True}


@pipeline
def cut_and_turned(sample):
    cut = ops.random_crop(sample.image, size=8)
    turned = ops.rotate(cut, degrees=30)
    return {
        "image": cut,
        "top": ops.drawn(cut, "top"),
        "left": ops.drawn(cut, "left"),
        "radians": ops.drawn(turned, "angle") * (np.pi / 180),
    }


def test_a_number_is_what_the_op_drew():
    for number, row in enumerate(rows(cut_and_turned)):
        top, left = row["top"], row["left"]
        assert np.array_equal(row["image"], IMAGE[top : top + 8, left : left + 8])
        angle = ops.Rotate(30).sample(8, 8, seed=3, id=number)["angle"]
        assert row["radians"] == angle * (np.pi / 180)


def test_every_op_with_a_switch_has_it():
    names = [cls.name for cls in registered() if hasattr(cls, "p") and switch_of(cls) is None]
    assert names == []


@pipeline
def not_called(sample):
    flip = ops.HorizontalFlip()
    return {"image": sample.image, "flipped": flip.applied}


@pipeline
def always(sample):
    turn = ops.Rotate(degrees=10)
    return {"image": turn(sample.image), "applied": turn.applied}


@pipeline
def of_a_batch(sample):
    mix = ops.Mixup()
    return {"image": mix(sample.image), "applied": mix.applied}


@pipeline
def of_a_batch_by_name(sample):
    image = ops.mixup(sample.image)
    return {"image": image, "weight": ops.drawn(image, "weight")}


@pipeline
def in_a_branch(sample):
    flip = ops.HorizontalFlip()
    image = sample.image
    if sample.image.height > 5:
        image = flip(image)
    return {"image": image, "flipped": flip.applied}


@pipeline
def in_a_choice(sample):
    flip = ops.HorizontalFlip()
    return {"image": random_apply(sample.image, apply=flip, p=0.5), "flipped": flip.applied}


@pipeline
def unknown(sample):
    image = ops.rotate(sample.image, degrees=10)
    return {"image": image, "number": ops.drawn(image, "degrees")}


@pipeline
def of_a_field(sample):
    return {"image": sample.image, "number": ops.drawn(sample.image, "angle")}


@pipeline
def of_an_array(sample):
    return {"image": sample.image, "number": ops.drawn(IMAGE, "angle")}


@pipeline
def of_a_scaled_value(sample):
    image, mask = ops.random_crop(sample.image, sample.mask, size=4, relative=True)
    return {"image": image, "mask": mask, "top": ops.drawn(mask, "top")}


@pipeline
def without_a_switch(sample):
    zoom = ops.ZoomOut()
    return {"image": zoom(sample.image), "applied": zoom.applied}


@pytest.mark.parametrize(
    ("made", "parts"),
    [
        (not_called, ("horizontal_flip.applied", "has not been called", "image = flip(image)")),
        (always, ("rotate.applied", "always applies", 'ops.drawn(image, "NAME")', "angle")),
        (of_a_batch, ("mixup.applied", "mixes finished rows", "params=True")),
        (of_a_batch_by_name, ("weight", "mixes finished rows", "params=True")),
        (in_a_branch, ("horizontal_flip.applied", "inside a branch")),
        (in_a_choice, ("horizontal_flip.applied", "inside a branch")),
        (unknown, ("rotate has no number 'degrees'", "angle")),
        (of_a_scaled_value, ("top", "scaled the decision", "from the first result")),
        (without_a_switch, ("zoom_out.applied", "does not record whether it was applied")),
        (of_a_field, ("angle", "expected the result of an op")),
        (of_an_array, ("ops.drawn", "got ndarray")),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(made, parts):
    with pytest.raises(BuildError) as caught:
        made.graph()
    assert "test_read_draws.py:" in caught.value.message
    assert all(part in caught.value.message for part in parts), caught.value.message
