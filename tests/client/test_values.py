"""Ops of values, and images of int16, through a Loader: NumPy makes the same of what is stored."""

import shutil

import numpy as np
import pytest
from commands import call
from daemons import serving
from PIL import Image

from stoker import ops
from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.pipeline import branching, pipeline
from stoker.protocol.errors import BuildError

pytestmark = pytest.mark.slow

SIDES = (24, 30)
WHITE = {"uint8": 255, "uint16": 65535, "float32": 1}
CHANGES = {
    "strong": ops.BrightnessContrast(0.4, 0.9, p=1),
    "by_mean": ops.BrightnessContrast(0.4, 0.9, brightness_by_max=False, p=1),
    "safe": ops.BrightnessContrast(0.4, 0.9, ensure_safe_range=True, p=1),
}
CT = {
    "image": np.random.default_rng(9).integers(-1024, 3072, (4, *SIDES)).astype(np.int16),
    "mask": np.random.default_rng(9).integers(0, 2, (4, *SIDES)).astype(np.uint8),
}
"""Slices in Hounsfield units: int16 without a dimension of channels, as scanners give them."""


@pipeline
def brightened(sample):
    """Each dtype by each op; an op of one name has the same draws for all three."""
    return {
        f"{dtype}_{name}": op(sample[dtype], stream=name)
        for dtype in WHITE
        for name, op in CHANGES.items()
    }


@pipeline
def scanned(sample):
    """A CT image by what moves it, what resizes it, and what makes floats of it."""
    image, mask = ops.crop(sample.image, sample.mask, size=(30, 24), top=-3, left=5, fill=-1024)
    image, mask = ops.vertical_flip(image, mask, p=1)
    small = ops.resize(sample.image, size=(12, 15), interpolation="bicubic")
    return {
        "moved": ops.layout(image),
        "mask": mask,
        "small": small,
        "clipped": ops.clip(image, low=-200, high=300),
        "window": ops.window(image, center=40, width=400),
        "bright": ops.brightness_contrast(
            ops.window(small, center=40, width=400), brightness_limit=0, contrast_limit=(1, 1), p=1
        ),
        "scaled": ops.normalize(small, mean=-100, std=300, layout="CHW"),
        "mean": sample.image.mean(),
    }


@pytest.fixture(scope="module")
def stored():
    rng = np.random.default_rng(8)
    levels = rng.integers(0, 256, (4, *SIDES, 3), np.uint8)
    wide = rng.integers(0, 65536, (4, *SIDES, 3), np.uint16)
    return {"uint8": levels, "uint16": wide, "float32": (wide / 65535).astype(np.float32)}


@pytest.fixture(scope="module")
def open_loader(session_folder, stored):
    folder = session_folder / "values"
    fields = [schema.image(name, "raw", dtype=name, channels=3) for name in stored]
    rows = [{name: values[n] for name, values in stored.items()} for n in range(4)]
    folder.mkdir()
    write(str(folder / "data"), fields, rows)
    np.savez(folder / "ct.npz", **CT)
    kinds = ("--field=image=image", "--field=mask=mask")
    assert call("pack", folder / "ct.npz", folder / "ct", *kinds, "--workers=1")[0] == 0
    flags = [f"--dataset={name}={folder / name}" for name in ("data", "ct")]
    with serving(folder, *flags, "--workers=1") as daemon:
        yield lambda made, dataset="data": Loader(
            daemon.address, dataset=dataset, pipeline=made, batch_size=4, shuffle=False,
            device="numpy", params=True,
        )  # fmt: skip
    shutil.rmtree(folder)


def test_brightness_contrast_is_the_line_of_its_record(open_loader, stored):
    with open_loader(brightened) as loader:
        (batch,) = loader
        found = {name: np.array(value) for name, value in batch.items()}
        drawn = batch.params
    for dtype, white in WHITE.items():
        for name, op in CHANGES.items():
            for row, image in enumerate(stored[dtype].astype(np.float64)):
                record = drawn[name][row]
                a, b = 1 + record["contrast"], record["brightness"]
                b *= white if op.brightness_by_max else image.mean()
                if op.ensure_safe_range:
                    b = np.clip(b, 0, white)
                    a = min(a, 1 - b / white)
                expected = np.clip(a * image + b, 0, white)
                close = 1e-7 if dtype == "float32" else 0.5 + 1e-6
                assert np.abs(found[f"{dtype}_{name}"][row] - expected).max() <= close


def test_ct_images_of_int16_keep_their_numbers(open_loader):
    with open_loader(scanned, "ct") as loader:
        (batch,) = loader
        found = {name: np.array(value) for name, value in batch.items()}

    def cropped(values, fill):
        return np.pad(values, ((0, 0), (3, 9), (0, 4)), constant_values=fill)[:, :30, 5:29][:, ::-1]

    moved = cropped(CT["image"], -1024)
    assert found["moved"].dtype == found["small"].dtype == found["clipped"].dtype == np.int16
    assert np.array_equal(found["moved"][:, 0], moved)
    assert np.array_equal(found["mask"], cropped(CT["mask"], 0))
    assert np.array_equal(found["clipped"][..., 0], moved.clip(-200, 300))
    unit = ((moved + 160.0) / 400).clip(0, 1)
    assert np.abs(found["window"][..., 0] - unit).max() <= 1e-7
    planes = [np.asarray(Image.fromarray(plane.astype("f4")).resize((15, 12), 3))
              for plane in CT["image"]]  # fmt: skip
    small = found["small"][..., 0].astype(np.float64)
    assert np.abs(small - planes).max() <= 0.51
    bright = (((small + 160) / 400).clip(0, 1) * 2).clip(0, 1)
    assert np.abs(found["bright"][..., 0] - bright).max() <= 3e-7
    assert np.abs(found["scaled"][:, 0] - (small + 100) / 300).max() <= 1e-5
    assert np.array_equal(found["mean"], CT["image"].mean((1, 2)))


WINDOW = {"center": 0, "width": 400}


@branching
def windowed_by_an_if(sample):
    image = sample.image
    if sample.image.mean() > 0:
        image = ops.window(image, **WINDOW)
    return image


REFUSED = {
    "join": (windowed_by_an_if, r"int16, the other floats from 0 to 1: call ops\.window\(.* both"),
    "air": (
        lambda s: ops.pad(ops.window(s.image, **WINDOW), padding=2, fill=-1000),
        r"pad: fill=\(-1000,\) is below 0",
    ),
    "twice": (
        lambda s: ops.window(ops.window(s.image, **WINDOW), center=128, width=100),
        "center=128 and width=100 makes all pixels equal",
    ),
    "levels": (
        lambda s: ops.clip(ops.window(s.image, **WINDOW), low=10, high=200),
        "low=10 and high=200 makes all pixels equal",
    ),
    "method": (lambda s: s.image.clip(0, 1), "has no 'clip': use ops.clip, which takes images"),
    "gamma": (lambda s: ops.gamma(s.image), r"gamma .*call ops\.window\(image, center=, width=\)"),
    "rotate": (lambda s: ops.rotate(s.image, degrees=9), r"rotate .*call ops\.window\("),
    "clahe": (lambda s: ops.clahe(s.image), r"ops\.window\(.*before clahe, and from_float after"),
    "to_float": (lambda s: ops.to_float(s.image), r"Call ops\.window\(.* instead"),
    "fill": (lambda s: ops.pad(s.image, padding=2, fill=40000), "from -32768 to 32767"),
    "bound": (lambda s: ops.clip(s.image, low=-200, high=40000), "an integer from -32768 to 32767"),
    "scale": (
        lambda s: ops.normalize(s.image, mean=0.5, std=0.25),
        "numbers of int16: give the mean and std of its",
    ),
    "window_of_mask": (lambda s: ops.window(s.mask, center=1, width=1), "no rule for a mask"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_makes_no_sense_of_int16_is_refused(open_loader, name):
    run, message = REFUSED[name]
    with pytest.raises(BuildError, match=message):
        open_loader(pipeline(lambda sample: {"image": run(sample)}), "ct")
