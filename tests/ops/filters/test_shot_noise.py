"""Shot noise: the distribution of every level against SciPy's Poisson."""

import numpy as np
import pytest
from scipy import stats

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import ParameterError, ShotNoise


def expected(level: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the levels that a level can become and their probabilities, with SciPy."""
    most = int(np.ceil(1 / scale))
    counts = np.arange(most + 1)
    levels = np.floor(255 * np.minimum(counts * scale, 1) ** (1 / 2.2) + 0.5)
    law = stats.poisson((level / 255) ** 2.2 / scale)
    chances = law.pmf(counts)
    chances[most] = law.sf(most - 1)
    return levels, chances


@pytest.mark.parametrize("scale", [0.013, 0.1, 0.25, 0.3, 1.0])
def test_every_level_has_mean_variance_and_chances_of_poisson(run_op, scale):
    """One image of 8 levels, 40,000 values each; limits are six standard errors."""
    tried, count = (0, 1, 17, 64, 128, 200, 254, 255), 40_000
    image = np.repeat(np.uint8(tried), count).reshape(400, 800, 1)
    got = run_op(ShotNoise((scale, scale), p=1), [("image", image)], 5).outputs[0]
    for level, values in zip(tried, got.reshape(len(tried), count).astype(float), strict=True):
        levels, chances = expected(level, scale)
        mean = (levels * chances).sum()
        spread = ((levels - mean) ** 2 * chances).sum()
        fourth = ((levels - mean) ** 4 * chances).sum()
        assert abs(values.mean() - mean) <= 6 * np.sqrt(spread / count) + 0.02
        error = 6 * np.sqrt(max(fourth - spread**2, 0) / count)
        assert abs(values.var() - spread) <= error + 0.01 * spread + 0.02
        assert set(np.unique(values)) <= set(levels)
        for value in np.unique(levels):
            chance = chances[levels == value].sum()
            limit = 6 * np.sqrt(chance * (1 - chance) / count) + 2.0**-15
            assert abs((values == value).mean() - chance) <= limit


def test_values_are_independent(run_op):
    image = np.full((300, 300, 3), 128, np.uint8)
    got = run_op(ShotNoise((0.1, 0.1), p=1), [("image", image)]).outputs[0].astype(float)
    got -= got.mean()
    for other in (np.roll(got, 1, 0), np.roll(got, 1, 1), np.roll(got, 1, 2)):
        assert abs((got * other).mean()) < 6 * got.var() / np.sqrt(got.size)


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 3), (40, 31, 16)])
def test_compiled_is_plain_and_a_key_gives_one_result(run_op, noise, shape):
    image = noise(shape)
    for key in range(5):
        op = ShotNoise((0.01, 1), p=0.9)
        results = [
            run_op(op, [("image", image)], key, arithmetic=how).outputs[0].tobytes()
            for how in (COMPILED, PLAIN, COMPILED)
        ]
        assert len(set(results)) == 1


def test_rows_differ_and_the_scale_is_uniform_in_its_range(run_op, photo):
    op = ShotNoise((0.1, 0.3), p=1)
    first, second = (run_op(op, [("image", photo)], key).outputs[0] for key in (1, 2))
    assert (first != second).mean() > 0.5
    scales = np.array([float(run_op.draw(op, key, 9, 9)["scale"]) for key in range(400)])
    assert 0.1 <= scales.min() < scales.max() < 0.3
    assert abs(scales.mean() - 0.2) < 0.01


def test_black_stays_and_without_chance_nothing_changes(run_op, photo):
    black = np.zeros((9, 9, 3), np.uint8)
    assert not run_op(ShotNoise(p=1), [("image", black)]).outputs[0].any()
    assert (run_op(ShotNoise(p=0), [("image", photo)]).outputs[0] == photo).all()


@pytest.mark.parametrize("given", [(0, 0.1), (0.3, 0.1), (10, 30), 0.1, ("a", "b")])
def test_messages(given):
    with pytest.raises(ParameterError) as caught:
        ShotNoise(given)
    assert str(caught.value) == (
        "shot_noise: expected scale_range to be (low, high) with low <= high, from 0.01 to 1, got "
        f"{given!r}"
    )
