"""The dataset of the refusals: two samples with a field of every kind, in two splits."""

from pathlib import Path

import numpy as np

from stoker.dataset import schema, split, write

WEIGHTS = {"negative": -1.0, "unknown": float("nan"), "zero": 0.0}
IMAGE = np.random.default_rng(7).integers(0, 256, (32, 32, 3), np.uint8)
EYES = ("left_eye", "right_eye")
FIELDS = [
    schema.image(encoding="raw"),
    schema.image("depth", encoding="raw", dtype="float32", channels=1),
    schema.image("clean", encoding="raw"),
    schema.image("ct", encoding="bands", dtype="float32", channels=1),
    schema.array("numbers", "int32", (32, 32, 3)),
    schema.array("strip", "uint8", (None, 32, 3)),
    schema.blob("words"),
    schema.image("wide", encoding="raw", dtype="uint16", channels=1),
    schema.flow("flow"),
    schema.normals("normals"),
    schema.label("grade"),
    schema.array("heat", "float32", (32, 32)),
    schema.array("face_bbox", "float32", (4,)),
    schema.array("landmarks", "float32", (5, 2)),
    schema.mask(encoding="raw"),
    schema.relative(schema.mask("small", encoding="raw")),
    schema.boxes(),
    schema.with_classes(schema.keypoints("points", {"keypoint": "int64"}), EYES),
    schema.label(classes=("cat", "dog", "eel", "fox")),
    schema.scalar("weight"),
    *(schema.scalar(name) for name in WEIGHTS),
    schema.blob("text"),
]  # fmt: skip


def row_of_fields() -> dict[str, object]:
    """Return a sample, as a source has it."""
    rng = np.random.default_rng(3)
    mask = rng.integers(0, 4, (32, 32), np.uint8)
    return {
        "image": IMAGE,
        "depth": rng.random((32, 32, 1), np.float32),
        "clean": rng.integers(0, 256, (32, 32, 3), np.uint8),
        "ct": np.linspace(-1000, 1200, 32 * 32, dtype=np.float32).reshape(32, 32, 1),
        "numbers": rng.integers(0, 9, (32, 32, 3), np.int32),
        "strip": IMAGE[:9],
        "words": b"some words",
        "wide": rng.integers(0, 65536, (32, 32, 1), np.uint16),
        "flow": rng.random((32, 32, 2), np.float32),
        "normals": rng.random((32, 32, 3), np.float32),
        "grade": 10,
        "heat": rng.random((32, 32), np.float32),
        "face_bbox": np.float32([2, 3, 10, 12]),
        "landmarks": rng.random((5, 2), np.float32),
        "mask": mask,
        "small": mask[::2, ::2],
        "boxes": {"xyxy": [[2, 3, 10, 12]]},
        "points": {"xy": [[4, 5], [20, 9]], "keypoint": [0, 1]},
        "label": 1,
        "weight": np.float32(0.5),
        **WEIGHTS,
        "text": b"a word",
    }


def write_fields(folder: Path) -> None:
    """Write the dataset into a folder that is not there yet."""
    row = row_of_fields()
    write(folder, FIELDS, [row, row])
    split(folder, {"train": 1, "val": "rest"})
