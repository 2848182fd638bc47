"""A daemon whose dataset gets samples and fields, or is packed anew, while it runs.

The pipelines are sent by the loader and import no file of the user.
"""

from pathlib import Path

import numpy as np
import pytest
from commands import call
from daemons import serving

from stoker.client import Loader
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError


@pipeline
def numbers(sample):
    return {"number": sample.number}


@pipeline
def scores(sample):
    return {"number": sample.score}


def table(path: Path, rows: range) -> Path:
    path.write_text("number,kind\n" + "".join(f"{row},a\n" for row in rows))
    return path


def done(*words: object) -> None:
    code, _, errors = call(*words)
    assert code == 0, errors


@pytest.mark.slow
def test_a_new_stream_has_the_dataset_as_it_is_now(tmp_path: Path) -> None:
    data, source = tmp_path / "data", tmp_path / "rows.csv"
    done("pack", table(source, range(3)), data, "--workers=1")

    def seen(of: object) -> list[int]:
        order = {"batch_size": 1, "shuffle": False, "device": "numpy"}
        with Loader(daemon.address, pipeline=of, **order) as loader:
            return [int(batch["number"][0]) for batch in loader]

    with serving(tmp_path, f"--dataset=data={data}", "--workers=1") as daemon:
        assert seen(numbers) == [0, 1, 2]
        done("pack", table(source, range(5)), data, "--append", "--workers=1")
        assert seen(numbers) == [0, 1, 2, 3, 4]
        with pytest.raises(BuildError, match="score"):
            seen(scores)
        np.save(tmp_path / "scores.npy", np.arange(5) * 10)
        done("add-column", data, "score", tmp_path / "scores.npy")
        assert seen(scores) == [0, 10, 20, 30, 40]
        done("pack", table(source, range(7, 9)), data, "--overwrite", "--workers=1")
        assert seen(numbers) == [7, 8]
        with pytest.raises(BuildError, match="score"):
            seen(scores)
