"""A user's script, for mypy: `--strict` also refuses an ignore that is not needed."""

from typing import Any

from stoker import ops
from stoker.client import Batch, Loader
from stoker.pipeline import pipeline
from stoker.protocol.errors import StokerError


@pipeline
def train(sample: Any) -> dict[str, Any]:
    """Crop, flip and normalize."""
    image = ops.random_resized_crop(sample.image, size=224)
    image = ops.horizontal_flip(image, p=0.5)
    return {"image": ops.normalize(image, layout="CHW"), "label": sample.label}


def count(path: str) -> int:
    """Return the rows of an epoch."""
    rows = 0
    try:
        with Loader(path, pipeline=train, batch_size=64, seed=0) as loader:
            for batch in loader:
                rows += batch_rows(batch)
    except StokerError as error:
        print(error.code)
    return rows


def batch_rows(batch: Batch) -> int:
    """Return the rows that count."""
    return int(batch.valid.sum())


def wrong() -> None:
    """Mistakes that a type checker finds."""
    Loader("packed", pipeline=train, batch_size="64")  # type: ignore[call-overload]
    ops.horizontal_flip(p="often")  # type: ignore[call-overload]
