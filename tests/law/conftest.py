"""The Law's rig, for the tests of this folder, and one daemon that most of them share."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import law_datasets
import numpy as np
import pytest
from commands import pack_folder
from law_damage import damage, write_pictures
from law_rig import (
    arrows,
    boxed,
    daemon,
    dataset,
    datasets,
    law,
    photographs,
    serving,
    source,
    tars,
)

from stoker.dataset.packing.splitting import split

__all__ = [
    "arrows", "boxed", "daemon", "dataset", "datasets", "law", "photographs", "source", "tars",
]  # fmt: skip


@pytest.fixture(scope="session")
def every(
    datasets: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    photographs: list[np.ndarray],
    source: Path,
) -> dict[str, Path]:
    """The Law's datasets by name, and those of single features: floats, clips, bit planes, ..."""
    root = tmp_path_factory.mktemp("features")
    made = {name: root / name for name in ("floats", "halves", "clips", "smaller", "damaged")}
    law_datasets.write_floats(made["floats"], photographs)
    law_datasets.write_halves(made["halves"], photographs)
    law_datasets.write_clips(made["clips"], law_datasets.frames(photographs))
    law_datasets.write_clips(made["smaller"], law_datasets.frames(photographs, height=40))
    write_pictures(made["damaged"], photographs)
    damage(made["damaged"])
    made["planes"] = pack_folder(source, root / "planes", "--encoding", "planes")
    made["parted"] = shutil.copytree(datasets["photos"], root / "parted")
    split(made["parted"], {"train": 0.7, "val": "rest"}, seed=4)
    return datasets | made


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory, every: dict[str, Path]) -> Iterator[str]:
    """Address of a daemon with three workers that serves all datasets; tests kill nothing in it.

    Tests that use it are marked `as_a_user`: whichever begins starts it.
    """
    with serving(tmp_path_factory.mktemp("shared"), every, workers=3) as running:
        yield running.address
