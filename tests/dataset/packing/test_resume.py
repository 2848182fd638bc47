"""Packing that is killed goes on where it was, to the same bytes, and leaves no process behind."""

import json
import os
import select
import signal
import subprocess
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from daemons import children
from PIL import Image
from warm import Script

from stoker.dataset import open_dataset
from stoker.dataset.packing.build import Cut
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.packing.pool import Job, run_jobs
from stoker.dataset.packing.verify_rows import verify_rows
from stoker.protocol.errors import DataError, DatasetError

DEADLINE_S = 60
PACKER = """
import json, sys
from stoker.dataset.packing.build import Cut
from stoker.dataset.packing.pack import Options, pack

source, dest, rows, workers, masks = sys.argv[1:]

def stop(progress):
    if progress.rows >= int(rows):
        print(progress.rows, flush=True)
        sys.stdin.read()

pack(source, dest, Options(workers=int(workers), cut=Cut(rows=3), masks=masks), stop)
"""


@pytest.fixture
def many(tmp_path, photographs, to_jpeg, to_png) -> Path:
    root = tmp_path / "many"
    for folder in ("images", "masks"):
        (root / folder).mkdir(parents=True)
    for number in range(24):
        pixels = list(photographs.values())[number % 6][number:, number:]
        (root / "images" / f"{number:02d}.jpg").write_bytes(to_jpeg(pixels))
        (root / "masks" / f"{number:02d}.png").write_bytes(to_png(pixels[:, :, 0] // 64))
    return root


def as_coco(folders: Path) -> Path:
    """The same images, with boxes and outlines; a sample has the work of painting in it."""
    images, annotations = [], []
    for number, path in enumerate(sorted((folders / "images").iterdir())):
        with Image.open(path) as picture:
            width, height = picture.size
        images.append({"id": number, "file_name": path.name, "height": height, "width": width})
        corners = [3, 3, width - 3, 3, width / 2, height - 3]
        annotations.append({
            "id": number, "image_id": number, "category_id": number % 2,
            "bbox": [3, 3, width - 6, height - 6], "segmentation": [corners],
        })  # fmt: skip
    categories = [{"id": 0, "name": "thing"}, {"id": 1, "name": "stuff"}]
    path = folders / "images" / "_annotations.coco.json"
    described = {"images": images, "annotations": annotations, "categories": categories}
    path.write_text(json.dumps(described))
    return path


def as_tars(folders: Path) -> Path:
    """The same pictures as two tars of samples."""
    root = folders.parent / "tars"
    root.mkdir()
    for half in range(2):
        with tarfile.open(root / f"{half}.tar", "w") as tar:
            for number in range(12 * half, 12 * half + 12):
                for folder, name in (("images", "jpg"), ("masks", "seg.png")):
                    suffix = name.rpartition(".")[2]
                    tar.add(folders / folder / f"{number:02d}.{suffix}", f"{number:02d}.{name}")
    return root


def as_parquet(folders: Path) -> Path:
    """The same pictures as a Parquet file of Hugging Face's form, in groups of five rows."""
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = pa.schema([("image", picture), ("mask", picture)])
    rows = [
        {
            name: {"bytes": (folders / f"{name}s" / f"{number:02d}.{suffix}").read_bytes()}
            for name, suffix in (("image", "jpg"), ("mask", "png"))
        }
        for number in range(24)
    ]
    table = pa.Table.from_pylist(rows, schema=columns)
    pq.write_table(table, folders.parent / "pairs.parquet", row_group_size=5)
    return folders.parent / "pairs.parquet"


SOURCES = {
    "folders": lambda folders: folders,
    "coco": as_coco,
    "tars": as_tars,
    "parquet": as_parquet,
}


def wait_for_end(pidfds: list[int]) -> None:
    for pidfd in pidfds:
        assert select.select([pidfd], [], [], DEADLINE_S)[0], "a worker outlived its parent"
        os.close(pidfd)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "workers", "kind"),
    [
        (1, 1, "folders"),
        (13, 1, "folders"),
        (23, 1, "folders"),
        (15, 2, "folders"),
        (5, 1, "coco"),
        (8, 2, "coco"),
        (7, 2, "tars"),
        (11, 2, "parquet"),
    ],
)
def test_killed_and_resumed(tmp_path, many, rows, workers, kind):
    dest = tmp_path / "d"
    source, masks = SOURCES[kind](many), "semantic" if kind == "coco" else ""
    command = ("-c", PACKER, source, dest, rows, workers, masks)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with Script(*command, imports=["stoker.dataset.packing.pack"], **pipes) as packer:
        assert select.select([packer.stdout], [], [], DEADLINE_S)[0]
        reached = int(packer.stdout.readline())
        assert reached >= rows
        pidfds = [os.pidfd_open(child) for child in children(packer.pid)]
        assert len(pidfds) == (workers if workers > 1 else 0)
        packer.send_signal(signal.SIGKILL)
    wait_for_end(pidfds)
    with pytest.raises(DatasetError, match="was not packed to the end; run the same `stoker pack`"):
        open_dataset(dest)
    options = Options(workers=1, cut=Cut(rows=3), masks=masks)
    report = pack(source, dest, options)
    assert report.resumed_rows % 3 == 0
    assert report.resumed_rows >= (rows - 1) // 3 * 3 - 3 * (workers - 1)
    pack(source, tmp_path / "clean", options)
    clean = {path.name: path.read_bytes() for path in (tmp_path / "clean").iterdir()}
    assert {path.name: path.read_bytes() for path in dest.iterdir()} == clean
    assert json.loads(clean["manifest.json"])["rows"] == 24


@pytest.mark.slow
def test_a_worker_that_dies_ends_the_run_by_name(tmp_path, many, monkeypatch):
    """The kernel kills a worker (as for want of memory) while it has a job."""
    before, killed = children(os.getpid()), []

    def kill(progress) -> None:
        if progress.rows and not killed:
            killed.append(children(os.getpid())[-1])
            os.kill(killed[0], signal.SIGKILL)

    jobs_seen = []
    monkeypatch.setattr(
        "stoker.dataset.packing.pack.Job", lambda *a: jobs_seen.append(a) or Job(*a)
    )
    message = (
        r"a worker process ended by signal SIGKILL while packing file \d \(3 rows\); run the same"
    )
    with pytest.raises(DataError, match=message):
        pack(many, tmp_path / "d", Options(workers=2, cut=Cut(rows=3)), kill)
    assert len(jobs_seen) == 8
    assert children(os.getpid()) == before


@pytest.mark.slow
def test_leaving_early_leaves_no_worker(tmp_path, many):
    pack(many, tmp_path / "d", Options(workers=1, cut=Cut(rows=3)))
    argument = {"path": str(tmp_path / "d"), "start": 0, "stop": 24, "limit": 9}
    before = len(children(os.getpid()))
    results = run_jobs([Job(verify_rows, argument, "")] * 4, 2, lambda *_: None)
    number, result = next(results)
    assert number in range(4)
    assert result["bad"] == 0
    assert len(children(os.getpid())) == before + 2
    results.close()
    assert len(children(os.getpid())) == before


@pytest.mark.slow
def test_errors_cross_from_workers_with_their_type(tmp_path):
    argument = {"path": str(tmp_path / "missing"), "start": 0, "stop": 1, "limit": 1}
    with pytest.raises(DatasetError, match="there is no folder"):
        list(run_jobs([Job(verify_rows, argument, "")] * 2, 2, lambda *_: None))
