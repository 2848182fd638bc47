"""Pack and read mutated files, in a process of its own, with little memory and a deadline for each.

    python tests/hostile/mutations.py KIND[,KIND...] FIRST STOP FOLDER

Makes a small valid source of each kind, then for each number from FIRST to STOP changes it in a
seeded way, packs it and, if it can be read in place, reads it in place. An outcome is good if it is
a dataset or a typed error. Writes a JSON line for each: {"kind": ..., "mutation": ..., "outcome":
...}; so if the process crashes, the line that is missing says where.
"""

import io
import json
import lzma
import os
import random
import re
import resource
import shutil
import signal
import sys
import tarfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from stoker.dataset import open_dataset
from stoker.dataset.packing.in_place import can_be_in_place
from stoker.dataset.packing.pack import Options, pack
from stoker.jit import set_cache_root
from stoker.protocol.errors import SampleError, StokerError

MEMORY_BYTES = 6 * 2**30
DEADLINE_S = 20
BETON = Path(__file__).parent.parent / "dataset" / "sources" / "betons" / "values.beton.xz"
NUMBERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63), 2**40)
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
FEATURES = {
    "image": {"_type": "Image"},
    "kind": {"names": ["a", "b", "c"], "_type": "ClassLabel"},
    "tags": {"feature": {"dtype": "int32", "_type": "Value"}, "length": -1, "_type": "Sequence"},
    "grid": {"shape": [2, 3], "dtype": "float32", "_type": "Array2D"},
}
COLUMNS = pa.schema(
    [
        ("image", PICTURE),
        ("kind", pa.int64()),
        ("caption", pa.string()),
        ("tags", pa.list_(pa.int32())),
        ("grid", pa.list_(pa.list_(pa.float32()))),
    ],
    metadata={b"huggingface": json.dumps({"info": {"features": FEATURES}}).encode()},
)


def encoded(number: int, form: str) -> bytes:
    """A small image, or mask as PNG, as the bytes of a file."""
    pixels = (np.arange(12 * 16 * 3) * (number + 3) % 251).astype(np.uint8).reshape(12, 16, 3)
    out = io.BytesIO()
    Image.fromarray(pixels[..., 0] // 64 if form == "PNG" else pixels).save(out, form)
    return out.getvalue()


def table() -> pa.Table:
    rows = [
        {
            "image": {"bytes": encoded(number, "JPEG"), "path": f"{number}.jpg"},
            "kind": number % 3,
            "caption": f"image {number}",
            "tags": list(range(number)),
            "grid": [[number, 1, 2], [3, 4, 5]],
        }
        for number in range(4)
    ]
    return pa.Table.from_pylist(rows, schema=COLUMNS)


def arrow_stream(root: Path) -> Path:
    with pa.OSFile(str(root / "data.arrow"), "wb") as file, pa.ipc.new_stream(file, COLUMNS) as out:
        out.write_table(table(), max_chunksize=2)
    return root / "data.arrow"


def arrow_file(root: Path) -> Path:
    with pa.OSFile(str(root / "data.arrow"), "wb") as file, pa.ipc.new_file(file, COLUMNS) as out:
        out.write_table(table(), max_chunksize=2)
    return root / "data.arrow"


def parquet(root: Path) -> Path:
    pq.write_table(table(), root / "data.parquet", row_group_size=2)
    return root / "data.parquet"


def huggingface(root: Path) -> Path:
    """A folder as `save_to_disk` leaves it; its descriptions are changed, not its data."""
    features = {name: FEATURES[name] for name in FEATURES if name != "grid"}
    described = {"features": features, "files": [{"filename": "data.arrow"}]}
    (root / "described.json").write_text(json.dumps(described))
    describe(root)
    return root / "described.json"


def describe(root: Path) -> None:
    """Write the data with the features that are described, and name the files."""
    text = (root / "described.json").read_bytes()
    features, _, files = text.partition(b', "files": ')
    features = b'{"info": ' + features + b"}}"
    (root / "state.json").write_bytes(b'{"_data_files": ' + files)
    rows = table().drop_columns(["grid"]).replace_schema_metadata({b"huggingface": features})
    with (
        pa.OSFile(str(root / "data.arrow"), "wb") as file,
        pa.ipc.new_stream(file, rows.schema) as out,
    ):
        out.write_table(rows, max_chunksize=2)


def tar(root: Path) -> Path:
    array = io.BytesIO()
    np.save(array, np.arange(6, dtype=np.float32).reshape(2, 3))
    with tarfile.open(root / "data.tar", "w") as file:
        for number in range(3):
            for suffix, data in (
                ("jpg", encoded(number, "JPEG")),
                ("seg.png", encoded(number, "PNG")),
                ("cls", b"%d" % number),
                ("npy", array.getvalue()),
                ("json", b'{"a": 1}'),
            ):
                info = tarfile.TarInfo(f"{number}.{suffix}")
                info.size = len(data)
                file.addfile(info, io.BytesIO(data))
    return root / "data.tar"


def ffcv(root: Path) -> Path:
    (root / "data.beton").write_bytes(lzma.decompress(BETON.read_bytes()))
    return root / "data.beton"


KINDS: dict[str, Callable[[Path], Path]] = {
    made.__name__: made for made in (arrow_stream, arrow_file, parquet, huggingface, tar, ffcv)
}


PIECES = (
    b"", b"\0", b"\xff", b"-1", b"1e999", b"NaN", b"null", b"true", b'"', b",", b"[[", b"{}",
    b"../", b"/dev/zero", b"9" * 40, b'"_type": "Array5D"', b'"_type": "Image"',
    b'"length": 1000000000000',
)  # fmt: skip


def mutated_text(data: bytes, rng: random.Random) -> bytes:
    """Change a few words of JSON; most often only values."""
    words = re.split(rb'(\w+|"[^"]*")', data)
    for _ in range(rng.choice([1, 1, 2])):
        place = rng.randrange(len(words))
        words[place] = rng.choice([*PIECES, words[rng.randrange(len(words))]])
    return b"".join(words)


def mutated(data: bytes, places: np.ndarray, rng: random.Random) -> bytes:
    """Change a few places; most are bytes that are not zero, or next to such bytes."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        start = int(places[rng.randrange(len(places))]) + rng.choice([0, 0, -4, 4])
        start = min(max(start, 0), len(changed) - 1)
        how = rng.randrange(7)
        if how == 0:
            changed[start] ^= 1 << rng.randrange(8)
        elif how == 1:
            changed[start] = rng.randrange(256)
        elif how in (2, 3):
            width = rng.choice([4, 8])
            at = start // width * width
            number = rng.choice(NUMBERS) % 2 ** (8 * width)
            changed[at : at + width] = number.to_bytes(width, "little")
        elif how == 4:
            del changed[start : start + rng.choice([1, 8, 64, 512])]
        elif how == 5:
            other = int(places[rng.randrange(len(places))])
            changed[start : start + 16] = changed[other : other + 16]
        else:
            del changed[rng.randrange(len(changed)) :]
        changed = changed or bytearray(1)
    return bytes(changed)


def read(path: Path) -> str:
    """Read all of a dataset; return what came of it."""
    with open_dataset(path) as dataset:
        largest = max((f.bound_bytes for f in dataset.schema.fields if f.is_picture), default=0)
        out = np.empty(min(largest, 2**26), np.uint8)
        outcome = "read"
        for number in range(len(dataset)):
            for field in dataset.schema.fields:
                try:
                    if field.is_picture:
                        dataset.decode(field.name, number, out)
                    else:
                        dataset.read(field.name, number)
                except SampleError as error:
                    outcome = "bad" if error.details["reason"] else "Traceback: no reason"
    return outcome


def tried(source: Path, dest: Path) -> str:
    """Pack a source and read it in place; return what came of it."""
    outcomes = []
    for way in ("packed", "in place"):
        try:
            if way == "packed":
                shutil.rmtree(dest, ignore_errors=True)
                pack(source, dest, Options(workers=1, grid=False, skip_bad=True))
                outcomes.append(read(dest))
            elif can_be_in_place(source):
                outcomes.append(read(source))
        except StokerError as error:
            outcomes.append(error.code if str(error) else "Traceback: no message")
    return " ".join(outcomes)


def late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"not done after {DEADLINE_S} s")


def main() -> None:
    kinds, first, stop, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, late)
    set_cache_root(str(folder / "cache"))
    for kind in kinds.split(","):
        try_kind(kind, range(first, stop), folder)


def try_kind(kind: str, numbers: range, folder: Path) -> None:
    """Try the mutations of a kind with these numbers; write their outcomes."""
    source = folder / kind
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    path = KINDS[kind](source)
    whole = source if kind == "huggingface" else path
    data = path.read_bytes()
    filled = np.flatnonzero(np.frombuffer(data, np.uint8))
    assert tried(whole, folder / "dest").split()[0] == "read"
    for number in numbers:
        rng = random.Random(f"{kind} {number}")
        if kind == "huggingface":
            path.write_bytes(mutated_text(data, rng))
            describe(source)
        else:
            path.write_bytes(mutated(data, filled, rng))
        signal.alarm(DEADLINE_S)
        try:
            outcome = tried(whole, folder / "dest")
        except Exception:
            outcome = traceback.format_exc()
        finally:
            signal.alarm(0)
        found = {"kind": kind, "mutation": number, "outcome": outcome}
        os.write(1, json.dumps(found).encode() + b"\n")


if __name__ == "__main__":
    main()
