"""ISO noise: HLS by Python's colorsys, counts against SciPy's Poisson, turns against the normal."""

import colorsys

import numpy as np
import pytest
from scipy import stats

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import IsoNoise, ParameterError
from stoker.ops.filters.iso_noise import mean_count, plain_change, plain_draws


def record_of(shift: float, intensity: float) -> np.ndarray:
    return np.array((shift, intensity, (3, 4), 1), IsoNoise.record)


def test_lightness_and_hue_change_as_in_colorsys():
    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (2000, 3)).astype(np.uint8)
    image[:50] = image[:50, :1]
    count = rng.integers(0, 90, 2000).astype(np.float32)
    turn = rng.uniform(0, 6, 2000).astype(np.float32)
    got = plain_change(image, count, turn)
    for pixel, c, t, out in zip(image, count, turn, got, strict=True):
        hue, light, saturation = colorsys.rgb_to_hls(*(pixel / 255))
        light += c / 255 * (1 - light)
        expected = 255 * np.array(colorsys.hls_to_rgb(hue + t / 6, light, saturation))
        assert np.abs(out - expected).max() <= 0.501


@pytest.mark.parametrize("mean", [0.0, 0.3, 7.0, 127.5])
def test_counts_are_poisson_and_turns_are_normal(mean):
    """200,000 pixels; limits are six standard errors, and 2**-15 for the rounded thresholds."""
    pixels = 200_000
    count, turn = plain_draws(record_of(0.1, 0.5), mean, pixels)
    for k in np.unique(count):
        chance = stats.poisson(mean).pmf(k)
        assert abs((count == k).mean() - chance) <= 6 * np.sqrt(chance / pixels) + 2.0**-15
    assert abs(count.mean() - mean) <= 6 * np.sqrt(mean / pixels) + 0.01
    turn = (turn + 3) % 6 - 3
    assert abs(turn.mean()) <= 6 * 0.3 / np.sqrt(pixels)
    assert abs(turn.std() / 0.3 - 1) <= 0.02
    assert abs(np.corrcoef(count, turn)[0, 1]) < 6 / np.sqrt(pixels) if mean else not count.any()


def test_the_mean_count_is_intensity_times_the_deviation_of_the_lightness(photo):
    double = photo.max(-1).astype(np.int64) + photo.min(-1)
    got = mean_count(int(double.sum()), int((double**2).sum()), double.size, 0.4)
    assert got == pytest.approx(0.4 * (double / 2).std())


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 3), (1, 513, 3), (40, 31, 1)])
def test_compiled_is_plain_and_a_key_gives_one_result(run_op, noise, shape):
    image = noise(shape)
    for key in range(5):
        op = IsoNoise((0, 1), (0, 1), p=0.9)
        results = [
            run_op(op, [("image", image)], key, arithmetic=how).outputs[0].tobytes()
            for how in (COMPILED, PLAIN, COMPILED)
        ]
        assert len(set(results)) == 1


def test_rows_differ_and_draws_are_uniform_in_their_ranges(run_op, photo):
    op = IsoNoise((0.01, 0.05), (0.1, 0.5), p=1)
    first, second = (run_op(op, [("image", photo)], key).outputs[0] for key in (1, 2))
    assert (first != second).mean() > 0.5
    for name, low, high in (("shift", 0.01, 0.05), ("intensity", 0.1, 0.5)):
        drawn = np.array([float(run_op.draw(op, key, 9, 9)[name]) for key in range(400)])
        assert low <= drawn.min() < drawn.max() < high
        assert abs(drawn.mean() - (low + high) / 2) < (high - low) / 10


def test_without_intensity_or_chance_nothing_changes(run_op, photo):
    for op in (IsoNoise(intensity=(0, 0), p=1), IsoNoise(p=0)):
        assert (run_op(op, [("image", photo)]).outputs[0] == photo).all()


def test_a_gray_image_of_one_lightness_stays(run_op):
    flat = np.full((9, 9, 3), 90, np.uint8)
    assert (run_op(IsoNoise(p=1), [("image", flat)]).outputs[0] == flat).all()


@pytest.mark.parametrize("name", ["color_shift", "intensity"])
@pytest.mark.parametrize("given", [(-0.1, 0.1), (0.3, 0.1), (1, 2), 0.1, ("a", "b")])
def test_messages(name, given):
    with pytest.raises(ParameterError) as caught:
        IsoNoise(**{name: given})
    assert str(caught.value) == (
        f"iso_noise: expected {name} to be (low, high) with low <= high, from 0 to 1, got {given!r}"
    )
