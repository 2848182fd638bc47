"""Datasets that are not packed, with a real daemon: tars in place and live sources."""

import importlib
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from user_folders import importing_from

from stoker.client import LengthBuckets, Loader
from stoker.dataset import schema, write
from stoker.protocol.errors import DatasetError, ResumeError, SampleError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_private_daemons")]
HERE = Path(__file__).parent
OPTIONS = {"pipeline": "client_pipelines:train", "batch_size": 4, "device": "numpy", "workers": 2}


@pytest.fixture(scope="module", autouse=True)
def modules() -> Iterator[None]:
    """Every process can import the modules of pipelines and sources."""
    with importing_from(HERE):
        yield


@pytest.fixture(scope="module")
def live():
    return importlib.import_module("live_sources")


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory, live) -> list[dict[str, np.ndarray]]:
    """Two epochs of the same samples, packed."""
    path = tmp_path_factory.mktemp("packed") / "photos"
    fields = [schema.image(grid=True), schema.label(classes=("even", "odd"))]
    write(path, fields, live.Photos())
    with Loader(path, **OPTIONS) as loader:
        return delivered(loader)


def delivered(loader: Loader, epochs: int = 2) -> list[dict[str, np.ndarray]]:
    names = ("image", "label", "index")
    return [{n: np.array(batch[n]) for n in names} for _ in range(epochs) for batch in loader]


def assert_same(found, expected) -> None:
    assert len(found) == len(expected)
    for one, two in zip(found, expected, strict=True):
        assert all(np.array_equal(one[name], two[name]) for name in two)


@pytest.fixture
def tars(tmp_path: Path, live) -> Path:
    """Two tars."""
    for number in range(2):
        with tarfile.open(tmp_path / f"{number}.tar", "w") as tar:
            for index in range(9 * number, min(live.ROWS, 9 * number + 9)):
                parts = {"jpg": live.picture(index), "cls": str(index % 2).encode()}
                for part, data in parts.items():
                    info = tarfile.TarInfo(f"{index:04d}.{part}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return tmp_path


@pytest.mark.as_a_user
def test_tars_in_place_give_the_bytes_of_the_packed_dataset_until_they_change(
    tars, batches
) -> None:
    """A change ends the stream, and its cursor: what is there now is another dataset."""
    with Loader(tars, **OPTIONS) as loader:
        assert_same(delivered(loader), batches)
        cursor = loader.state_dict()
        os.utime(tars / "1.tar", ns=(1, 1))
        with pytest.raises(DatasetError):
            loader.replay(len(loader.dataset) - 1, 0)  # of the tar that changed
        with pytest.raises(DatasetError, match=r"1.tar changed while it is read in place: it had"):
            delivered(loader, 30)  # more than are prefetched
    with (
        Loader(f"{tars}/{{0..1}}.tar", **OPTIONS) as loader,
        pytest.raises(ResumeError, match=r"dataset: was 'stat:[0-9a-f]{32}', is 'stat:[0-9a-f]"),
    ):
        loader.load_state_dict(cursor)


@pytest.mark.as_a_user
def test_a_live_source_gives_the_bytes_of_the_packed_dataset(batches) -> None:
    with Loader("live_sources:Photos", **OPTIONS) as loader:
        assert_same(delivered(loader), batches)
        cursor = loader.state_dict()
    with (  # another class that declares the same fingerprint
        Loader("live_sources:Spoilt", **OPTIONS) as loader,
        pytest.raises(ResumeError, match=r"dataset: was 'declared:[0-9a-f]{32}', is 'declared:"),
    ):
        loader.load_state_dict(cursor)


def test_a_live_sample_that_cannot_be_made_follows_the_policy() -> None:
    with (
        Loader("live_sources:Spoilt", **OPTIONS) as loader,
        pytest.raises(SampleError, match=r"Spoilt, id 5: ValueError: the film is torn"),
    ):
        delivered(loader)
    with Loader("live_sources:Spoilt", on_error="mask", **OPTIONS) as loader:
        bad = [int(n) for _ in range(2) for b in loader for n in b.requested[~b.valid]]
    assert bad == [5, 5]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Offline", "3 tries failed, the last with ConnectionError: no"),
        ("Nothing", "dataset .*live_sources.py has no 'Nothing'"),
    ],
)
def test_a_live_source_that_cannot_be_read_ends_the_stream(name, message) -> None:
    """What may go well later is no bad sample."""
    with (
        pytest.raises(DatasetError, match=message),
        Loader(f"live_sources:{name}", on_error="replace", **OPTIONS) as loader,
    ):
        delivered(loader)


def test_lists_in_an_arrow_file_in_place(tmp_path: Path) -> None:
    """Lists of any length can be padded, and make buckets, as in a packed dataset."""
    lists = [list(range(length)) for length in (3, 1, 7, 2, 8, 5, 4, 6)]
    table = pa.table({"text": pa.array(lists, pa.list_(pa.int32())), "label": range(8)})
    with pa.ipc.new_file(tmp_path / "rows.arrow", table.schema) as writer:
        writer.write_table(table, 3)
    fields = [schema.array("text", "int32", (None,)), schema.label()]
    rows = [{"text": text, "label": number} for number, text in enumerate(lists)]
    write(tmp_path / "packed", fields, rows)
    given = {"batch_size": 2, "device": "numpy", "workers": 1}
    buckets = LengthBuckets(field="text", multiple=4)
    for pipeline, wanted in (("padded", None), ("fitted", buckets)):
        options = {"pipeline": f"client_pipelines:{pipeline}", "buckets": wanted, **given}
        found = []
        for path in (tmp_path / "rows.arrow", tmp_path / "packed"):
            with Loader(path, **options) as loader:
                found.append([(b["text"].tolist(), b.label.tolist()) for b in loader])
        assert found[0] == found[1] != []
        for texts, labels in found[0]:
            assert [text[: len(lists[n])] for text, n in zip(texts, labels, strict=True)] == [
                lists[number] for number in labels
            ]
