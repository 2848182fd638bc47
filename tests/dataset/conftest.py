"""Photographs that ship with scikit-image and scikit-learn, and folders made of them."""

import io
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from files import npy_bytes, tar_of
from PIL import Image
from sample_photographs import sample_photographs


def jpeg_bytes(pixels: np.ndarray, orientation: int = 1, **options) -> bytes:
    out = io.BytesIO()
    if orientation != 1:
        exif = Image.Exif()
        exif[0x0112] = orientation
        options["exif"] = exif
    Image.fromarray(pixels).save(out, "JPEG", **{"quality": 90, **options})
    return out.getvalue()


def png_bytes(pixels: np.ndarray, **options) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", **options)
    return out.getvalue()


@pytest.fixture(scope="session")
def photographs() -> dict[str, np.ndarray]:
    """(H, W, 3) uint8 photographs, each at most 200 pixels high, and different in size."""
    china, flower = sample_photographs()
    found = {
        "astronaut": skimage.data.astronaut(),
        "chelsea": skimage.data.chelsea(),
        "coffee": skimage.data.coffee(),
        "rocket": skimage.data.rocket(),
        "china": china,
        "flower": flower,
    }
    return {
        name: np.ascontiguousarray(pixels[40 : 190 + 7 * number, 60 : 260 - 11 * number])
        for number, (name, pixels) in enumerate(found.items())
    }


@pytest.fixture(scope="session")
def write_tar():
    return tar_of


@pytest.fixture(scope="session")
def npy():
    return npy_bytes


@pytest.fixture(scope="session")
def to_jpeg():
    return jpeg_bytes


@pytest.fixture(scope="session")
def to_png():
    return png_bytes


@pytest.fixture
def image_folder(tmp_path: Path, photographs) -> Path:
    """An image folder of two classes, JPEG and PNG, one picture nested deeper."""
    root = tmp_path / "source"
    for number, (name, pixels) in enumerate(photographs.items()):
        folder = root / ("animals" if number % 2 else "things")
        folder = folder / "deep" if name == "china" else folder
        folder.mkdir(parents=True, exist_ok=True)
        if name == "coffee":
            (folder / f"{name}.png").write_bytes(png_bytes(pixels))
        else:
            (folder / f"{name}.jpg").write_bytes(jpeg_bytes(pixels))
    return root


@pytest.fixture
def parallel_folders(tmp_path: Path, photographs) -> Path:
    """images/ (JPEG) and masks/ (PNG) with one partner each."""
    root = tmp_path / "pairs"
    (root / "images").mkdir(parents=True)
    (root / "masks").mkdir()
    for name, pixels in photographs.items():
        (root / "images" / f"{name}.jpg").write_bytes(jpeg_bytes(pixels))
        (root / "masks" / f"{name}.png").write_bytes(png_bytes(pixels[:, :, 0] // 64))
    return root
