"""salt_and_pepper: how many pixels, which colors, and which bytes of NumPy's Philox decide."""

import numpy as np
import pytest

from stoker.ops import SaltAndPepper


def spoiled(run_op, as_record, image, amount, seed=(1, 2)):
    record = as_record(SaltAndPepper.record)
    record["apply"], record["amount"], record["seed"] = 1, amount, seed
    return run_op(SaltAndPepper((0, 1)), [("image", image)], record=record).outputs[0]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pixels_are_those_of_numpys_philox(run_op, as_record, channels):
    image = np.full((30, 47, channels), 100, np.uint8)
    bits = np.random.Philox(key=np.array((5, 6), np.uint64), counter=np.zeros(4, np.uint64))
    noise = np.empty(16 + image.size, np.uint16)
    noise[16:] = bits.random_raw(image.size // 4 + 1).view("<u2")[: image.size]
    after = spoiled(run_op, as_record, image, 0.25, (5, 6)).reshape(-1, channels)
    for n in range(16, len(after)):  # NumPy counts up first: its first block is block 1
        expected = 100 if noise[n] >= 16384 else 255 * (int(noise[n]) % 2)
        assert (after[n] == expected).all()


def test_amount_and_balance(run_op, as_record):
    image = np.full((400, 500, 3), 100, np.uint8)
    for amount in (0.0, 0.01, 0.3, 1.0):
        after = spoiled(run_op, as_record, image, amount)
        assert (after == after[..., :1]).all(), "all channels of a pixel alike"
        changed, white = (after[..., 0] != 100).mean(), (after[..., 0] == 255).mean()
        assert abs(changed - amount) <= 0.005
        assert abs(white - amount / 2) <= 0.005
