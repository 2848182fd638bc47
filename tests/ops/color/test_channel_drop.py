"""channel_drop: which channels become the fill, and that the others stay."""

import pytest

from stoker.ops import ChannelDrop


def dropped(image, after, fill):
    """Numbers of the channels that were filled; all others must be as they were."""
    filled = [c for c in range(image.shape[2]) if (after[..., c] == fill[c]).all()]
    kept = [c for c in range(image.shape[2]) if c not in filled]
    assert (after[..., kept] == image[..., kept]).all()
    return filled


def test_as_many_channels_as_drawn_are_filled(run_op, noise):
    op = ChannelDrop((1, 2), (7, 8, 9), 1)
    image = noise((20, 30, 3))
    seen = set()
    for key in range(60):
        done = run_op(op, [("image", image)], key)
        filled = dropped(image, done.outputs[0], (7, 8, 9))
        assert len(filled) == done.record["count"]
        seen.add(tuple(filled))
    assert seen == {(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)}


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_one_channel_always_stays(run_op, noise, channels):
    image = noise((20, 30, channels))
    for key in range(10):
        after = run_op(ChannelDrop((3, 3), 0, 1), [("image", image)], key).outputs[0]
        assert len(dropped(image, after, (0, 0, 0, 0))) == min(3, channels - 1)


def test_the_default_fill_is_black():
    assert not ChannelDrop().params()["fill"].any()
