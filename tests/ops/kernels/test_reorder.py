"""Vertical flips, transpositions and quarter turns against Pillow; swapped sizes are bounded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker.jit import compiled
from stoker.ops import Rot90, State, Transpose, VerticalFlip
from stoker.ops.kernels.reorder import mirror_in_place

METHODS = {
    "vertical_flip": {0: None, 1: Image.Transpose.FLIP_TOP_BOTTOM},
    "transpose": {0: None, 1: Image.Transpose.TRANSPOSE},
    "rot90": {
        0: None,
        1: Image.Transpose.ROTATE_90,
        2: Image.Transpose.ROTATE_180,
        3: Image.Transpose.ROTATE_270,
    },
}
side = st.integers(1, 80)


def pillow(plane, method):
    done = Image.fromarray(plane)
    return np.asarray(done if method is None else done.transpose(method))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("op", [VerticalFlip(), Transpose(), Rot90()], ids=lambda op: op.name)
def test_reorders_are_pillows(run_op, noise, op, channels):
    image, mask = noise((71, 46, channels)), noise((71, 46), dtype="int32")
    seen = set()
    for key in range(24):
        done = run_op(op, [("image", image), ("mask", mask)], key)
        choice = int(done.record[op.record.names[0]])
        seen.add(choice)
        method = METHODS[op.name][choice]
        for channel in range(channels):
            expected = pillow(image[..., channel], method)
            assert (done.outputs[0][..., channel] == expected).all()
        assert (done.outputs[1] == pillow(mask, method)).all()
    assert seen == set(METHODS[op.name])


@settings(max_examples=80, deadline=None)
@given(side, side, st.integers(0, 999), st.sampled_from(["uint8", "uint16", "int32"]))
def test_every_size(run_op, noise, height, width, key, dtype):
    image, mask = noise((height, width, 3), key), noise((height, width), key, dtype)
    done = run_op(Rot90(p=1), [("image", image), ("mask", mask)], key)
    turns = int(done.record["turns"])
    assert (done.outputs[0] == np.rot90(image, turns)).all()
    assert (done.outputs[1] == np.rot90(mask, turns)).all()


@settings(max_examples=120, deadline=None)
@given(
    side,
    side,
    st.sets(st.integers(0, 3), min_size=1),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.booleans(),
)
def test_what_comes_out_is_declared_and_declared_tightly(run_op, noise, height, width, turns, p, v):
    """Every size that can occur fits the state; a side said to be fixed is."""
    bound = (height + 9, width + 3) if v else None
    op, found = Rot90(tuple(turns), p), set()
    state = State.fixed("mask", "uint8", (height, width))
    if v:
        state = State("mask", "uint8", (None, None), bound)
    (after,), scratch = op.declare((state,))
    for key in range(12):
        (out,) = run_op(op, [("mask", noise((height, width)))], key, bound=bound).outputs
        found.add(out.shape)
    possible = {(height, width) if t % 2 == 0 else (width, height) for t in turns if p > 0}
    possible |= {(height, width)} if p < 1 else set()
    assert found <= possible
    assert scratch == 0
    if bound is None:
        assert after.is_fixed == (len(possible) == 1)


def test_sides_swap_in_states():
    tall = State("image", "uint8", (None, None, 3), (40, 20, 3))
    assert str(Transpose(1).declare((tall,))[0][0]) == "image uint8[<=20x<=40x3]"
    assert str(Transpose(0).declare((tall,))[0][0]) == "image uint8[<=40x<=20x3]"
    assert str(Transpose(0.5).declare((tall,))[0][0]) == "image uint8[<=40x<=40x3]"
    square = State.fixed("image", "uint8", (32, 32, 3))
    assert Rot90().declare((square,))[0][0] == square
    wide = State.fixed("mask", "uint16", (2, 7))
    assert str(Rot90((1, 3), 1).declare((wide,))[0][0]) == "mask uint16[7x2]"
    assert str(Rot90((0, 2)).declare((wide,))[0][0]) == "mask uint16[2x7]"


def test_turns_are_equally_likely(run_op):
    drawn = [int(run_op.draw(Rot90(p=1), k, 4, 4)["turns"]) for k in range(2000)]
    assert np.abs(np.bincount(drawn) / 2000 - 0.25).max() < 0.04
    half = [int(run_op.draw(Rot90((2, 3), p=0.5), k, 4, 4)["turns"]) for k in range(2000)]
    assert np.abs(np.bincount(half) / 2000 - [0.5, 0, 0.25, 0.25]).max() < 0.04
    for p in (0.0, 0.3, 1.0):
        for op, name in ((VerticalFlip(p), "flip"), (Transpose(p), "swap")):
            assert abs(np.mean([run_op.draw(op, k, 4, 4)[name] for k in range(1500)]) - p) < 0.04


def test_one_set_of_turns_is_one_op():
    assert Rot90((3, 1, 1)) == Rot90((1, 3))
    assert Rot90(2) == Rot90((2,))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_rows_are_mirrored_where_they_are(noise, channels, dtype):
    """At every width around those of one, two and three pairs of blocks."""
    fast = compiled(mirror_in_place)
    for width in [*range(1, 70), 95, 96, 97, 127, 128, 129, 191, 192, 193, 224]:
        image = noise((3, width, channels), width).astype(dtype)
        expected = image[:, ::-1].tobytes()
        for form in (fast, mirror_in_place) if width % 16 == 1 else (fast,):
            painted = image.copy()
            form(painted)
            assert painted.tobytes() == expected, width
