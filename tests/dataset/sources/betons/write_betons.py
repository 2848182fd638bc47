"""Write .beton files with FFCV itself, and what FFCV reads from them.

    FFCV/bin/python tests/dataset/sources/betons/write_betons.py PHOTOGRAPH tests/dataset/betons

FFCV/bin/python is an interpreter with ffcv 1.0.2 (benchmarks/peers/README.md); PHOTOGRAPH is any
picture of at least 400x400, here scikit-image's astronaut.png. Writes NAME.beton.xz, compressed
because FFCV pads a file to pages of 2 MiB, and NAME.npz: FIELD is what `ffcv.loader.Loader` yields;
`given_FIELD` is what the writer was given, end to end, and `sizes_FIELD` the size of each, for what
FFCV cannot read as it is: pictures of several sizes, float16, big-endian numbers, and bytes, which
it pads with what was in its memory.
"""

import json
import lzma
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from ffcv.fields import (
    BytesField,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
    TorchTensorField,
)
from ffcv.loader import Loader, OrderOption
from ffcv.reader import Reader
from ffcv.writer import DatasetWriter
from PIL import Image

COUNT = 6
GIVEN = {"varying", "smart", "sixteen_letters_", "text", "half", "big_endian"}
PAGE_BYTES = 2**21


class Rows:
    """Rows that were made before, as FFCV's writer wants them."""

    def __init__(self, rows: list[tuple]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple:
        return self.rows[index]


def window(photograph: np.ndarray, number: int, height: int, width: int) -> np.ndarray:
    """A part of the photograph, (height, width, 3) uint8."""
    top, left = 40 * number, 50 * number
    return np.ascontiguousarray(photograph[top : top + height, left : left + width])


def pictures(photograph: np.ndarray) -> tuple[dict, list[tuple]]:
    """The ways FFCV has to store a picture, in one size, since it reads no other without a crop."""
    fields = {
        "raw": RGBImageField(),
        "jpg": RGBImageField(write_mode="jpg", jpeg_quality=95),
        "proportion": RGBImageField(write_mode="proportion", max_resolution=32),
        "label": IntField(),
    }
    rows = []
    for number in range(COUNT):
        small = window(photograph, number, 24, 32)
        rows.append((small, Image.fromarray(small), window(photograph, number, 48, 64), number))
    return fields, rows


def sizes(photograph: np.ndarray) -> tuple[dict, list[tuple]]:
    """Pictures of several sizes; every second one is a JPEG in the field `smart`."""
    fields = {
        "varying": RGBImageField(),
        "smart": RGBImageField(write_mode="smart", smart_threshold=1700),
    }
    rows = [
        window(photograph, number, 20 + 8 * (number % 2), 28 - number) for number in range(COUNT)
    ]
    return fields, [(pixels, pixels) for pixels in rows]


def small_ones(photograph: np.ndarray) -> tuple[dict, list[tuple]]:
    """Enough for several chunks, which FFCV hands to its writers as they come."""
    rows = [(number, window(photograph, number % 7, 8, 8)) for number in range(40)]
    return {"label": IntField(), "raw": RGBImageField()}, rows


def values() -> tuple[dict, list[tuple]]:
    """Every other field, with the values at the ends of their ranges; nothing in some of them."""
    fields = {
        "int": IntField(),
        "float": FloatField(),
        "sixteen_letters_": BytesField(),
        "text": JSONField(),
        "matrix": NDArrayField(np.dtype("<f4"), (2, 3)),
        "flags": NDArrayField(np.dtype("bool"), (5,)),
        "half": NDArrayField(np.dtype("<f2"), (1, 2, 1)),
        "big_endian": NDArrayField(np.dtype(">i4"), (3,)),
        "words": NDArrayField(np.dtype("<i2"), (4,)),
        "tensor": TorchTensorField(torch.float64, (2, 2)),
        "bytes": TorchTensorField(torch.uint8, (7,)),
    }
    rng = np.random.default_rng(5)
    integers = (0, -1, 2**63 - 1, -(2**63), 12345, 7)
    floats = (0.0, -0.0, np.inf, np.nan, 1e-300, np.pi)
    texts = ({}, {"a": [1, 2.5, None]}, [], "Grüße, 火", 0, {"nested": {"deep": [True, "x" * 60]}})
    rows = [
        (
            integers[number],
            floats[number],
            rng.integers(0, 256, (0, 1, 0, 300, 7, 0)[number], np.uint8),
            texts[number],
            rng.standard_normal((2, 3), np.float32),
            rng.random(5) < 0.5,
            rng.standard_normal((1, 2, 1)).astype("<f2"),
            rng.integers(-(2**31), 2**31, 3).astype(">i4"),
            rng.integers(-(2**15), 2**15, 4).astype("<i2"),
            torch.from_numpy(rng.standard_normal((2, 2))),
            torch.from_numpy(rng.integers(0, 256, 7, np.uint8)),
        )
        for number in range(COUNT)
    ]
    return fields, rows


def read_back(path: Path, names: list[str]) -> dict[str, np.ndarray]:
    """What FFCV's own loader yields, one array a field."""
    if not names:
        return {}
    loader = Loader(
        str(path),
        batch_size=1,
        num_workers=1,
        order=OrderOption.SEQUENTIAL,
        pipelines={
            name: [handler.get_decoder_class()()] if name in names else None
            for name, handler in Reader(str(path)).handlers.items()
        },
    )
    batches = [[np.array(part) for part in batch] for batch in loader]
    return {
        name: np.concatenate([batch[place] for batch in batches])
        for place, name in enumerate(names)
    }


def given(fields: dict, rows: list[tuple]) -> dict[str, np.ndarray]:
    """The values that the writer got for fields that FFCV cannot read as they are."""
    found = {}
    for place, (name, field) in enumerate(fields.items()):
        if name not in GIVEN:
            continue
        column = [row[place] for row in rows]
        if isinstance(field, JSONField):
            column = [np.frombuffer(json.dumps(value).encode(), np.uint8) for value in column]
        arrays = [np.asarray(value) for value in column]
        found[f"given_{name}"] = np.concatenate([array.reshape(-1) for array in arrays])
        found[f"sizes_{name}"] = np.array([array.size for array in arrays])
    return found


def main() -> None:
    photograph = np.asarray(Image.open(sys.argv[1]).convert("RGB"))
    dest = Path(sys.argv[2])
    np.random.seed(3)  # FFCV draws which pictures of "proportion" become JPEGs
    cases = {
        "pictures": (*pictures(photograph), PAGE_BYTES, 1),
        "sizes": (*sizes(photograph), PAGE_BYTES, 1),
        "values": (*values(), PAGE_BYTES, 1),
        "two_writers": (*small_ones(photograph), 4 * PAGE_BYTES, 2),
    }
    for name, (fields, rows, page_bytes, writers) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.beton"
            writer = DatasetWriter(str(path), fields, page_size=page_bytes, num_workers=writers)
            writer.from_indexed_dataset(Rows(rows), chunksize=5)
            found = read_back(path, [field for field in fields if field not in GIVEN])
            packed = lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
        (dest / f"{name}.beton.xz").write_bytes(packed)
        np.savez_compressed(dest / f"{name}.npz", **found, **given(fields, rows))


if __name__ == "__main__":
    main()
