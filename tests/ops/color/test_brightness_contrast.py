"""brightness_contrast against the published form of Albumentations' RandomBrightnessContrast.

It is a * x + b in float64, clipped: a = 1 + contrast, b = brightness * 255 or brightness * mean.
Albumentations 2.0.8 itself gives equal levels or one less, because it drops fractions.
"""

import numpy as np
import pytest

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import BrightnessContrast, ParameterError
from stoker.rng.draws import uniform_range
from stoker.rng.streams import make_key

WHITE = {"uint8": 255, "uint16": 65535, "float32": 1}
DRAWN = [(0.0, 0.0), (0.1, 0.3), (-0.2, 0.0), (0.4, -0.7), (-0.3, 2.5), (0.25, -1.5), (3.0, 16.0)]


def line(image, brightness, contrast, *, by_max=True, safe=False):
    """The values before they are rounded; `safe` picks a and b as Albumentations documents it."""
    white = WHITE[image.dtype.name]
    a, b = 1 + contrast, brightness * (white if by_max else image.mean(dtype=np.float64))
    if safe:
        b = np.clip(b, 0, white)
        a = min(a, 1 - b / white) if a > 0 else max(a, -b / white)
    return np.clip(image.astype(np.float64) * a + b, 0, white)


@pytest.fixture
def changed(run_op, as_record):
    def run(image, brightness, contrast, arithmetic, **given):
        op = BrightnessContrast(**given)
        record = as_record(op.record)
        record["apply"], record["brightness"], record["contrast"] = 1, brightness, contrast
        (out,) = run_op(op, [("image", image)], record=record, arithmetic=arithmetic).outputs
        return out

    return run


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
@pytest.mark.parametrize("dtype", list(WHITE))
def test_contrast_then_brightness(changed, photo, dtype, arithmetic):
    image = np.ascontiguousarray(photo[::9, ::9])
    if dtype == "uint16":
        image = image.astype(dtype) * np.uint16(257) + np.uint16(3) * (image < 250)
    elif dtype == "float32":
        image = (image / np.float32(255)).astype(dtype)
    close = 3e-8 if dtype == "float32" else 0.5 + 1e-6
    for brightness, contrast in DRAWN:
        for by_max, safe in ((True, False), (False, False), (True, True), (False, True)):
            given = {"brightness_by_max": by_max, "ensure_safe_range": safe}
            out = changed(image, brightness, contrast, arithmetic, **given)
            expected = line(image, brightness, contrast, by_max=by_max, safe=safe)
            assert out.dtype == image.dtype
            assert np.abs(out - expected).max() <= close, (brightness, contrast, given)
    assert np.array_equal(changed(image, 0, 0, arithmetic), image)


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
def test_odd_floats(changed, arithmetic):
    odd = np.array([np.nan, np.inf, -np.inf, 1.5, -0.5, 0.5], "f4").reshape(2, 3, 1)
    assert changed(odd, 0.25, 0, arithmetic).ravel().tolist() == [0, 1, 0, 1, 0, 0.75]
    assert np.array_equal(changed(odd, 0, 0, arithmetic), odd, equal_nan=True)


def test_no_level_is_clipped_in_a_safe_range(changed, noise):
    image = noise((40, 50, 3))
    for brightness, contrast in ((0.3, 0.5), (-0.9, 3.0), (1.0, 0.2)):
        out = changed(image, brightness, contrast, COMPILED, ensure_safe_range=True)
        inside = (image > 0) & (image < 255)
        levels = len(np.unique(image[inside]))
        assert len(np.unique(out[inside])) <= levels
        assert (np.diff(out.reshape(-1)[np.argsort(image.reshape(-1))].astype(int)) >= 0).all()


def test_the_draws_are_numbers_1_and_2():
    op, key = BrightnessContrast(0.3, (-0.1, 0.5), p=1), make_key(1, 2, 3, 4)
    record, params = np.zeros(1, op.record)[0], np.zeros(1, op.parameters)
    params[0] = op.params()[()]
    op.draw(key, params[0], 5, 6, record)
    assert record["apply"] == 1
    assert record["brightness"] == uniform_range(key, 1, -0.3, 0.3)
    assert record["contrast"] == uniform_range(key, 2, -0.1, 0.5)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"brightness_limit": (0.3, -0.3)}, "brightness_limit to be a number from 0 to 16, or"),
        ({"contrast_limit": 30}, "contrast_limit to be a number from 0 to 16, or"),
        ({"contrast_limit": float("nan")}, "contrast_limit to be a number"),
        ({"brightness_by_max": 1}, "brightness_by_max to be True or False, got 1"),
        ({"ensure_safe_range": None}, "ensure_safe_range to be True or False, got None"),
        ({"p": 2}, "p to be a number from 0 to 1"),
    ],
)
def test_wrong_parameters_are_named(given, expected):
    with pytest.raises(ParameterError, match=f"brightness_contrast: expected {expected}"):
        BrightnessContrast(**given)


def test_a_number_is_a_range_around_0():
    assert BrightnessContrast(0.3, 0.5) == BrightnessContrast((-0.3, 0.3), (-0.5, 0.5))
