"""AugMix's transforms against Pillow, with torchvision's magnitudes; how often each is drawn."""

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from scipy.stats import chisquare

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import AugmixTransform, ParameterError, State, StateError
from stoker.ops.mixes.augmix_transform import TRANSFORMS


def magnitude(name, level, size):
    """torchvision's AugMix._augmentation_space with 10 bins, for an image of (height, width)."""
    height, width = size
    tops = {"shear_x": 0.3, "shear_y": 0.3, "translate_x": width / 3, "translate_y": height / 3}
    tops |= {"rotate": 30.0} | dict.fromkeys(("brightness", "color", "contrast", "sharpness"), 0.9)
    if name == "posterize":
        return 4 - int(np.round(np.arange(10) / (9 / 4))[level])
    if name == "solarize":
        return np.linspace(255.0, 0.0, 10)[level]
    return np.linspace(0.0, tops.get(name, 0.0), 10)[level]


def moved(image, name, m):
    """Pillow's nearest transform; shears are about the center, as documented."""
    picture = Image.fromarray(image)
    if name == "rotate":
        return np.asarray(picture.rotate(m, Image.Resampling.NEAREST))
    height, width = image.shape[:2]
    x, y = {"shear_x": (m, 0), "shear_y": (0, m)}.get(name, (0, 0))
    right, down = {"translate_x": (int(m + 1e-9 * np.sign(m)), 0)}.get(name, (0, 0))
    if name == "translate_y":
        right, down = 0, int(m + 1e-9 * np.sign(m))
    matrix = (1, x, -x * height / 2 - right, y, 1, -y * width / 2 - down)
    affine = Image.Transform.AFFINE
    return np.asarray(picture.transform((width, height), affine, matrix, Image.Resampling.NEAREST))


def colored(image, name, m):
    picture = Image.fromarray(image)
    enhance = {
        "brightness": ImageEnhance.Brightness,
        "color": ImageEnhance.Color,
        "contrast": ImageEnhance.Contrast,
        "sharpness": ImageEnhance.Sharpness,
    }
    if name in enhance:
        return np.asarray(enhance[name](picture).enhance(1 + m))
    if name == "solarize":
        return np.where(image >= m, 255 - image, image)
    if name == "posterize":
        return image & (256 - 2 ** (8 - int(m)))
    return np.asarray(
        {"autocontrast": ImageOps.autocontrast, "equalize": ImageOps.equalize}[name](picture)
    )


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_transform_is_torchvisions(run_op, as_record, photo, name, arithmetic):
    image = np.ascontiguousarray(photo[60:180, 90:251])
    op = AugmixTransform(severity=10, interpolation="nearest")
    signed = name not in ("posterize", "solarize", "autocontrast", "equalize")
    for level in range(10):
        for sign in (1, -1):
            record = as_record(op.record)
            record["transform"], record["level"] = TRANSFORMS.index(name), level
            record["sign"] = sign
            (got,) = run_op(op, [("image", image)], record=record, arithmetic=arithmetic).outputs
            m = magnitude(name, level, image.shape[:2]) * (sign if signed else 1)
            if name in TRANSFORMS[:5]:
                differs = (got != moved(image, name, m)).any(2).mean()
                assert differs < (1e-9 if name.startswith("translate") else 0.05), (level, sign)
            else:
                distance = np.abs(got.astype(int) - colored(image, name, m)).max()
                assert distance <= (0 if name in TRANSFORMS[5:9] else 1), (level, sign)


def test_bilinear_and_fill_are_those_of_warps(run_op, as_record, photo):
    image = np.ascontiguousarray(photo[:90, :100])
    op = AugmixTransform(severity=10, fill=(9, 8, 7))
    record = as_record(op.record)
    record["transform"], record["level"], record["sign"] = TRANSFORMS.index("translate_x"), 9, 1
    (got,) = run_op(op, [("image", image)], record=record).outputs
    assert (got[:, :33] == (9, 8, 7)).all()
    assert (got[:, 33:] == image[:, :-33]).all()


@pytest.mark.parametrize("all_ops", [True, False])
def test_draws_are_as_likely_as_said(run_op, all_ops):
    op = AugmixTransform(severity=4, all_ops=all_ops)
    records = [run_op.draw(op, key, 30, 40, arithmetic=PLAIN) for key in range(4000)]
    count = 13 if all_ops else 9
    for field, values in (("transform", range(count)), ("level", range(4)), ("sign", (-1, 1))):
        drawn = [int(record[field]) for record in records]
        assert set(drawn) == set(values)
        assert chisquare([drawn.count(value) for value in values]).pvalue > 1e-4


def test_what_is_refused():
    for severity in (0, 11, 2.5, None):
        with pytest.raises(ParameterError, match="severity to be an integer from 1 to 10"):
            AugmixTransform(severity)
    with pytest.raises(ParameterError, match="all_ops to be True or False, got 1"):
        AugmixTransform(all_ops=1)
    with pytest.raises(ParameterError, match="interpolation to be one of nearest, bilinear"):
        AugmixTransform(interpolation="cubic")
    with pytest.raises(StateError, match="an image of 1 \\(gray\\) or 3 channels"):
        AugmixTransform().declare((State.fixed("image", "uint8", (8, 8, 4)),))
    with pytest.raises(StateError, match="augmix_transform has no rule for a mask"):
        AugmixTransform().declare((State.fixed("mask", "uint8", (8, 8)),))
