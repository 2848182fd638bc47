"""Powers of floats between 0 and 1: near those of float64, and the same plain or compiled."""

import numpy as np
import pytest

from stoker.jit import compiled
from stoker.ops.kernels.powers import plain_raised, raise_all

GAMMAS = [0.05, 0.45, 0.8, 1.0, 1.25, 2.2, 4.0, 16.0]


def values():
    """Evenly spread, and of every exponent; the ends of each half octave with their neighbors."""
    draw = np.random.default_rng(3)
    words = np.uint32([0x3F3504F3, 0x3F3504F4, 0x3F800000 - 1, 0x00800000, 1, 0])
    near = (words[:, None] + np.arange(-1, 2).astype(np.uint32)).ravel().view(np.float32)
    octaves = 2.0 ** -draw.uniform(0, 149, 20_000)
    found = np.concatenate([draw.random(30_000), octaves]).astype(np.float32)
    return np.concatenate([found, near[(near >= 0) & (near <= 1)]])


@pytest.mark.parametrize("power", GAMMAS)
def test_powers_are_numpys(power):
    x = values()
    got = plain_raised(x, np.float32(power))
    exact = x.astype(np.float64) ** np.float64(np.float32(power))
    assert got.dtype == np.float32
    assert np.abs(got - exact).max() < 1.2e-7
    large = exact > 1e-3
    assert np.abs(got[large] / exact[large] - 1).max() < 1.5e-6


@pytest.mark.parametrize("power", [*GAMMAS, 1e-300, 1e-9])
def test_compiled_is_plain(power):
    odd = np.float32([np.nan, -np.nan, np.inf, -np.inf, -0.0, -1.0, 1.0, 1.5, -1e-40])
    x = np.concatenate([values(), odd])
    got, gamma = x.copy(), np.float32(power)
    compiled(raise_all)(got, gamma)
    assert got.tobytes() == plain_raised(x, gamma).tobytes()
    assert got[-len(odd) :].tolist() == [0, 0, 1, 0, 0, 0, 1, 1, 0]
