"""Flips and crops against Pillow and NumPy's padding; joint inputs stay together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from stoker.ops import CenterCrop, HorizontalFlip, Mirror, RandomCrop

side = st.integers(1, 60)
pads = st.integers(0, 20)


def padded_cut(array, top, left, size, fill):
    """Pad far enough with NumPy, then slice."""
    margin = 200
    pads = [(margin, margin), (margin, margin)] + [(0, 0)] * (array.ndim - 2)
    wide = np.pad(array, pads, constant_values=0)
    known = np.pad(np.ones(array.shape[:2], bool), margin)
    wide[~known] = fill
    window = (
        slice(top + margin, top + margin + size[0]),
        slice(left + margin, left + margin + size[1]),
    )
    return wide[window]


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_flip_is_pillows_mirror(run_op, noise, channels):
    image, mask = noise((31, 46, channels)), noise((31, 46), dtype="int32")
    seen = set()
    for key in range(20):
        done = run_op(HorizontalFlip(), [("image", image), ("mask", mask)], key)
        flipped = bool(done.record["flip"])
        seen.add(flipped)
        for channel in range(channels):
            plane = Image.fromarray(image[..., channel])
            expected = np.asarray(ImageOps.mirror(plane) if flipped else plane)
            assert (done.outputs[0][..., channel] == expected).all()
        assert (done.outputs[1] == (mask[:, ::-1] if flipped else mask)).all()
    assert seen == {False, True}


@pytest.mark.parametrize("channels", [1, 3])
def test_every_width_is_mirrored(run_op, noise, channels):
    for width in range(1, 131):
        image = noise((3, width, channels))
        done = run_op(Mirror(), [("image", image)], 0)
        assert (done.outputs[0] == image[:, ::-1]).all(), width


@pytest.mark.parametrize("fill", [(7,), (7, 7, 7), (1, 2, 3)])
def test_every_width_is_cut_out_of_what_is_padded(run_op, noise, fill):
    """Narrow rows are filled whole, wide ones where the image does not reach."""
    for width in range(1, 100):
        image = noise((9, width, 3))
        done = run_op(RandomCrop((9, width), padding=4, fill=fill), [("image", image)], width)
        top, left = int(done.record["top"]), int(done.record["left"])
        expected = padded_cut(image, top, left, (9, width), fill)
        assert (done.outputs[0] == expected).all(), width


def test_flip_has_probability_p(run_op):
    for p in (0.0, 0.25, 1.0):
        flips = [int(run_op.draw(HorizontalFlip(p), k, 4, 4)["flip"]) for k in range(2000)]
        assert abs(np.mean(flips) - p) < 0.03


def torchvision_offset(size_in, size_out):
    """torchvision 0.2x, functional.center_crop."""
    before = (size_out - size_in) // 2 if size_out > size_in else 0
    grown = max(size_in, size_out)
    return round((grown - size_out) / 2.0) - before


@settings(max_examples=150, deadline=None)
@given(side, side, side, side)
def test_center_crop_is_torchvisions(run_op, noise, h, w, oh, ow):
    image, mask = noise((h, w, 3)), noise((h, w), dtype="uint16")
    op = CenterCrop((oh, ow), fill=(1, 2, 3), mask_fill=999)
    done = run_op(op, [("image", image), ("mask", mask)])
    top, left = torchvision_offset(h, oh), torchvision_offset(w, ow)
    assert (done.outputs[0] == padded_cut(image, top, left, (oh, ow), (1, 2, 3))).all()
    assert (done.outputs[1] == padded_cut(mask, top, left, (oh, ow), 999)).all()


@settings(max_examples=150, deadline=None)
@given(st.tuples(side, side), st.tuples(side, side), st.tuples(pads, pads), st.integers(0, 999))
def test_random_crop(run_op, noise, size_in, size_out, padding, key):
    (h, w), (oh, ow), (pad_y, pad_x) = size_in, size_out, padding
    image, mask = noise((h, w, 3)), noise((h, w), dtype="int32")
    op = RandomCrop((oh, ow), padding=padding, fill=77, mask_fill=-5)
    done = run_op(op, [("image", image), ("mask", mask)], key)
    top, left = int(done.record["top"]), int(done.record["left"])
    for at, before, after, pad in ((top, h, oh, pad_y), (left, w, ow, pad_x)):
        ends = sorted((-pad, before + pad - after))
        assert ends[0] <= at <= ends[1]
    assert (done.outputs[0] == padded_cut(image, top, left, (oh, ow), 77)).all()
    assert (done.outputs[1] == padded_cut(mask, top, left, (oh, ow), -5)).all()


@pytest.mark.parametrize(
    ("size", "padding", "places"), [(8, 0, 5), (8, 2, 9), (20, 1, 7), (12, 0, 1)]
)
def test_random_crop_reaches_every_place(run_op, size, padding, places):
    op = RandomCrop((size, 1), padding=(padding, 0))
    tops = [int(run_op.draw(op, k, 12, 1)["top"]) for k in range(40 * places)]
    assert len(set(tops)) == places
    assert max(tops) - min(tops) == places - 1
    assert np.unique(tops, return_counts=True)[1].min() > 10
