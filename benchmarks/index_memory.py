"""Time to open a large index, and the memory of a further worker.

Writes the index of a source of ROWS samples (a sparse file replaces the source and is never read)
and opens it. Then one process, and WORKERS at a time, read the label and the size of every sample
and many references. PSS is counted by the kernel: each of n processes that share a page has an n-th
of it; libraries are not counted. Prints one JSON object.

    python benchmarks/index_memory.py --rows 10000000 --workers 4
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from stoker.dataset import Dataset, Schema, open_dataset, schema
from stoker.dataset.format.arrow import ALIGN, parse_type, plan_file
from stoker.dataset.format.manifest import (
    ColumnPlace,
    DataFile,
    DatasetStatistics,
    Extent,
    Manifest,
    Source,
    write_manifest,
)
from stoker.dataset.format.source_item import SourceFile
from stoker.dataset.packing.build import with_row_columns

ROWS_PER_FILE = 2**20
PICTURE_BYTES = 100_000
PIECE = 2**16


def write_index(folder: Path, rows: int) -> int:
    """Write an index of that many samples; return its size in bytes."""
    folder.mkdir()
    big = folder / "source.tar"
    with open(big, "wb") as file:
        file.truncate(rows * PICTURE_BYTES)
    fields = (schema.referenced(schema.bounded(schema.image(), 512, 512)), schema.label())
    declared = with_row_columns(Schema(fields), source=True)
    files: list[DataFile] = []
    for number, first in enumerate(range(0, rows, ROWS_PER_FILE)):
        files.append(write_file(folder, declared, number, first, min(rows - first, ROWS_PER_FILE)))
    status = big.stat()
    manifest = Manifest(
        fingerprint="stat:" + 32 * "0",
        rows=rows,
        schema=declared,
        statistics=DatasetStatistics(),
        files=tuple(files),
        source=Source(
            name=str(big),
            kind="webdataset",
            fields={},
            skip_bad=False,
            root=str(folder),
            files=(SourceFile(big.name, status.st_size, status.st_mtime_ns),),
        ),
    )
    write_manifest(folder, manifest)
    return sum(file.size_bytes for file in files)


def write_file(folder: Path, declared: Schema, number: int, first: int, rows: int) -> DataFile:
    """Write one file of the index."""
    ids = np.arange(first, first + rows, dtype=np.uint64)
    places = ids * PICTURE_BYTES
    references = np.stack([ids * 0, ids * 0 + PICTURE_BYTES, places & 0xFFFFFFFF, places >> 32], 1)
    names = np.char.add("train.tar/", np.char.zfill(ids.astype("U9"), 9)).astype("S19")
    parts: dict[str, tuple[np.ndarray, np.ndarray | None]] = {
        "image": (references.astype(np.uint32), None),
        "image.height": ((300 + ids % 200).astype(np.int32), None),
        "image.width": ((300 + ids % 100).astype(np.int32), None),
        "image.orientation": (np.ones(rows, np.uint8), None),
        "label": ((ids % 1000).astype(np.int64), None),
        "stoker.digest": (np.zeros((rows, 16), np.uint8), None),
        "stoker.check": (np.zeros((rows, 8), np.uint8), None),
        "stoker.source": (names, np.arange(rows + 1, dtype=np.int64) * names.itemsize),
    }
    kinds = [(name, parse_type(kind)) for name, kind in declared.columns()]
    plan = plan_file([(name, kind, parts[name][0].nbytes) for name, kind in kinds], rows)
    name = f"{number:05d}-00000000.arrow"
    with open(folder / name, "wb") as file:
        file.write(plan.head)
        for column, _ in kinds:
            data, offsets = parts[column]
            for part in (offsets, data):
                if part is not None:
                    file.write(memoryview(part).cast("B"))
                    file.write(bytes(-part.nbytes % ALIGN))
        file.write(plan.tail)
    columns = {
        column: ColumnPlace(Extent(*place.data), Extent(*place.offsets) if place.offsets else None)
        for (column, _), place in zip(kinds, plan.places, strict=True)
    }
    return DataFile(
        name=name, first_row=first, rows=rows, size_bytes=plan.size_bytes, digest=32 * "0",
        columns=columns,
    )  # fmt: skip


def pss_kib(folder: str) -> int:
    """Return the proportional set size of the index's maps and of this process's own memory.

    Libraries are left out: how many other processes share them changes from moment to moment.
    """
    total, counted = 0, False
    with open("/proc/self/smaps") as file:
        for line in file:
            name, _, value = line.partition(":")
            if " " in name:  # the first line of a map: addresses, mode, ..., path
                path = line.split(maxsplit=5)[5].strip() if len(line.split()) > 5 else ""
                counted = path.startswith((folder, "[")) or not path
            elif name == "Pss" and counted:
                total += int(value.split()[0])
    return total


def mapped_kib(folder: str) -> int:
    """Return how much of the index's files this process has touched."""
    total, counted = 0, False
    with open("/proc/self/smaps") as file:
        for line in file:
            name, _, value = line.partition(":")
            if " " in name:  # the first line of a map
                counted = folder in line
            elif name == "Rss" and counted:
                total += int(value.split()[0])
    return total


def work(folder: str) -> None:
    """A worker: on request, report its memory, read everything once, report its memory again."""
    chosen = np.random.default_rng(0).integers(0, 2**62, 20_000)

    def answer(value: int) -> None:
        print(value, flush=True)
        sys.stdin.readline()

    answer(0)
    answer(pss_kib(folder))
    with open_dataset(folder) as dataset:
        answer(read(dataset, (chosen % len(dataset)).tolist()))
        answer(pss_kib(folder))


def read(dataset: Dataset, chosen: list[int]) -> int:
    """Read all labels and sizes, and the references of some samples; return a sum of it."""
    total = 0
    for first in range(0, len(dataset), PIECE):
        ids = np.arange(first, min(first + PIECE, len(dataset)))
        labels = np.empty(len(ids), np.int64)
        assert dataset.gather("label", ids, labels)
        total += int(labels.sum())
    for widths, heights in dataset.sizes("image"):
        total += int(widths.sum() + heights.sum())
    for number in chosen:
        total += len(dataset.reference("image", number)) + len(dataset.source(number) or "")
    return total


def measure(folder: Path, workers: int) -> int:
    """Return the total memory, in KiB, that reading takes in that many processes."""
    command = [sys.executable, __file__, "--work", str(folder)]
    pool = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(workers)
    ]
    try:
        answers = []
        for _ in range(4):  # the next request starts when all have answered
            answers.append(sum(int(worker.stdout.readline()) for worker in pool))
            for worker in pool:
                worker.stdin.write("\n")
                worker.stdin.flush()
    finally:
        for worker in pool:
            worker.communicate()
    return answers[3] - answers[1]


def main() -> None:
    """Write, open, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work)
        return
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "index"
        size_bytes = write_index(folder, arguments.rows)
        opening = []
        for _ in range(5):
            start = time.perf_counter()
            with open_dataset(folder) as dataset:
                dataset.size("image", len(dataset) - 1)
                opening.append(time.perf_counter() - start)
                touched_kib = mapped_kib(str(folder))
        measure(folder, 1)  # of a file just written, a process maps more pages than it reads
        one, many = measure(folder, 1), measure(folder, arguments.workers)
    further = (many - one) / (arguments.workers - 1)
    found = {
        "rows": arguments.rows,
        "index_bytes": size_bytes,
        "bytes_a_sample": size_bytes / arguments.rows,
        "open_s": sorted(opening)[2],
        "open_kib": touched_kib,
        "pss_one_worker_kib": one,
        f"pss_{arguments.workers}_workers_kib": many,
        "further_worker_kib": further,
        "further_worker_part_of_index": further * 1024 / size_bytes,
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
