"""The datasets of the storms: copies of the Law's, with splits, and one with bad samples."""

import shutil

import law_datasets
import pytest
from damage import accept_damage
from law_rig import (
    arrows,
    boxed,
    dataset,
    datasets,
    photographs,
    source,
    tars,
)
from options import SPLIT
from streams import BAD

from stoker.dataset import open_dataset
from stoker.dataset.packing.splitting import split

__all__ = ["arrows", "boxed", "dataset", "datasets", "photographs", "source", "tars"]


@pytest.fixture(scope="session")
def stormy(datasets, tmp_path_factory, photographs):
    """The datasets by name; `spoiled` is `boxed`, where `BAD` values end in zeros."""
    root = tmp_path_factory.mktemp("stormy")
    found = dict(datasets)
    for name, origin in (("photos", "photos"), ("boxed", "boxed"), ("spoiled", "boxed")):
        found[name] = shutil.copytree(datasets[origin], root / name)
        split(found[name], SPLIT)
    with open_dataset(found["spoiled"]) as opened:
        for number, field in BAD.items():
            file, offset = opened.locate(field, number)
            size = len(opened.read(field, number))
            with (found["spoiled"] / file.name).open("r+b") as data:
                data.seek(offset + size // 2)
                data.write(bytes(size - size // 2))
    accept_damage(found["spoiled"])
    for name, height in (("clips", 70), ("smaller", 40)):
        found[name] = root / name
        frames = law_datasets.frames(photographs, height=height)
        law_datasets.write_clips(found[name], frames)
    return found
