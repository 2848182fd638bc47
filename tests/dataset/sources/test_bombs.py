"""Sources that claim or unpack to huge sizes: one line that says so, in bounded memory.

All through `stoker pack`, in the process of the tests, which may get `SPARE` more memory meanwhile.
Large files are sparse.
"""

import contextlib
import io
import re
import resource
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.lib import format as npy_format
from PIL import Image

from stoker.dataset.limits import MAX_FILE_BYTES, MAX_LINE
from stoker.dataset.sources.common.arrow_claims import unpacked_bytes
from stoker.dataset.sources.formats.array_files import open_npz
from stoker.dataset.sources.formats.arrow_files import check_memory, rows_at_once
from stoker.protocol.files.text import MAX_TEXT_BYTES

SPARE = 2**29
HUGE = 2**40
ZSTD = {"compression": "zstd", "write_statistics": False}


@contextlib.contextmanager
def little_memory():
    """Let this process allocate at most `SPARE` more than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used_kib = int(re.search(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())[1])
    resource.setrlimit(resource.RLIMIT_DATA, (1024 * used_kib + SPARE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def sparse(path: Path, head: bytes, size_bytes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size_bytes)


def header(*shape: int) -> bytes:
    file = io.BytesIO()
    described = {"descr": "|u1", "fortran_order": False, "shape": shape}
    npy_format.write_array_header_1_0(file, described)
    return file.getvalue()


def member(name: str, size_bytes: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size_bytes
    return info.tobuf(tarfile.GNU_FORMAT)


def a_row_of_csv(root: Path) -> str:
    (root / "a.csv").write_bytes(b"x,label\n1,2\n" + b"y" * (MAX_LINE + 1))
    return "a.csv"


def a_row_of_many_lines(root: Path) -> str:
    (root / "a.csv").write_bytes(b"x,label\n1,2\n" + (b'"' + b"y" * 2**16 + b'\n",') * 2**8)
    return "a.csv"


def a_sparse_csv(root: Path) -> str:
    sparse(root / "a.csv", b"x,label\n1,2\n", 2**32)
    return "a.csv"


def a_list_of_images(root: Path) -> str:
    for folder in ("images", "labels"):
        (root / "yolo" / folder).mkdir(parents=True)
    (root / "yolo/images/a.png").touch()
    (root / "yolo/data.yaml").write_text("train: list.txt\nnames: [a]\n")
    sparse(root / "yolo/list.txt", b"images/a.png\n", 2**32)
    return "yolo"


def an_image(root: Path) -> str:
    sparse(root / "photos/a.jpg", b"\xff\xd8\xff", MAX_FILE_BYTES + 1)
    return "photos"


def a_member_of_tar(root: Path) -> str:
    sparse(root / "a.tar", member("0.jpg", 2 * MAX_FILE_BYTES), 2 * MAX_FILE_BYTES + 512)
    return "a.tar"


def a_row_of_npy(root: Path) -> str:
    head = header(1, MAX_FILE_BYTES + 1)
    sparse(root / "a.npy", head, len(head) + MAX_FILE_BYTES + 1)
    return "a.npy"


def a_shape_of_npy(root: Path) -> str:
    (root / "a.npy").write_bytes(header(10**30, 2**20))
    return "a.npy"


def a_long_header_of_npy(root: Path) -> str:
    (root / "a.npy").write_bytes(b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1) + b"{" * 10_000)
    return "a.npy"


def members_of_npz(root: Path) -> str:
    """Both claim 4 GiB in the archive's directory; one alone would be refused too."""
    with zipfile.ZipFile(root / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, header(2**25, 64) + bytes(2**20))
    data = (root / "a.npz").read_bytes()
    told = struct.pack("<I", len(header(2**25, 64)) + 2**20)
    claimed = struct.pack("<I", len(header(2**25, 64)) + 2**31)
    (root / "a.npz").write_bytes(data.replace(told, claimed))
    return "a.npz"


def a_member_by_bzip2(root: Path) -> str:
    with zipfile.ZipFile(root / "a.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("x.npy", header(4, 2) + bytes(8))
    return "a.npz"


def arrow(root: Path, new=pa.ipc.new_file) -> str:
    table = pa.table({"x": [bytes(2**20)], "label": [1]})
    out = pa.BufferOutputStream()
    with new(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    data = out.getvalue().to_pybytes()
    told = struct.pack("<q", 2**20)
    place = data.rindex(told)
    data = data[:place] + struct.pack("<q", HUGE) + data[place + 8 :]
    (root / "a.arrow").write_bytes(data)
    return "a.arrow"


def a_stream_of_arrow(root: Path) -> str:
    return arrow(root, pa.ipc.new_stream)


def parquet(root: Path, value: object = "x" * 2**24) -> str:
    table = pa.table({"x": pa.array([value]), "label": [1]})
    with pq.ParquetWriter(root / "a.parquet", table.schema, use_dictionary=False, **ZSTD) as file:
        for _ in range(9):
            file.write_table(table)
    assert (root / "a.parquet").stat().st_size < 2**16
    return "a.parquet"


def images_of_parquet(root: Path) -> str:
    return parquet(root, {"bytes": b"x" * 2**24, "path": "a"})


def a_dictionary_of_parquet(root: Path) -> str:
    """Its footer counts the value once, but 40 rows have it."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 40, pa.int32()), ["x" * 2**22])
    table = pa.table({"x": texts, "label": [1] * 40})
    pq.write_table(table, root / "a.parquet", store_schema=False, **ZSTD)
    return "a.parquet"


def rows_of_parquet(root: Path, **options: object) -> str:
    table = pa.table({"label": np.zeros(2**24 + 1, np.int8)})
    pq.write_table(table, root / "a.parquet", **{**ZSTD, **options})
    return "a.parquet"


def a_tiff(root: Path) -> str:
    file = io.BytesIO()
    Image.new("L", (16, 16)).save(file, "TIFF")
    data = file.getvalue()
    sides = [struct.pack("<HHII", tag, 4, 1, 16) for tag in (256, 257)]
    for one, tag in zip(sides, (256, 257), strict=True):
        assert one in data
        data = data.replace(one, struct.pack("<HHII", tag, 4, 1, 60_000))
    (root / "photos").mkdir()
    (root / "photos/a.tif").write_bytes(data)
    return "photos"


UNPACKS = r"its \d+ bytes unpack to {}, more than 100 times the size of the file and more than "
PLAIN = r"\d+ bytes; .*\(use_dictionary=False, compression=None in pyarrow\)"
VALUE = rf"it has {{}} bytes, more than the limit of {MAX_FILE_BYTES} for one value; divide it"
BOMBS = {
    a_row_of_csv: rf"a.csv, line 3: its row has more than {MAX_LINE} characters; check the ends",
    a_row_of_many_lines: rf"a.csv, line \d+: its row has more than {MAX_LINE} characters",
    a_sparse_csv: "a.csv, line 3: expected text in UTF-8, got a NUL byte",
    a_list_of_images: f"list.txt: expected text of at most {MAX_TEXT_BYTES} bytes, got a larger",
    an_image: "a.jpg: " + VALUE.format(MAX_FILE_BYTES + 1),
    a_member_of_tar: "a.tar/0: " + VALUE.format(2 * MAX_FILE_BYTES),
    a_row_of_npy: "a.npy.*" + VALUE.format(MAX_FILE_BYTES + 1),
    a_shape_of_npy: r"a.npy: expected 10+48576\d+ bytes of data, from its header, got 0",
    a_long_header_of_npy: "a.npy: expected a readable .npy file: EOF: reading array header",
    members_of_npz: "a.npz: " + UNPACKS.format(2 * (2**31 + len(header(2**25, 64)))),
    a_member_by_bzip2: "a.npz: its member 'x.npy' has the compression type 12, expected that of",
    arrow: "a.arrow: " + UNPACKS.format(r"10995116\d+"),
    a_stream_of_arrow: "a.arrow: " + UNPACKS.format(r"10995116\d+"),
    parquet: "a.parquet: " + UNPACKS.format(r"15\d+"),
    images_of_parquet: "a.parquet: " + UNPACKS.format(r"15\d+"),
    a_dictionary_of_parquet: "a.parquet: " + UNPACKS.format(r"1\d+"),
    rows_of_parquet: "a.parquet: " + UNPACKS.format(8 * (2**24 + 1)) + PLAIN,
    a_tiff: "a.tif: it has 60000x60000 pixels, more than the limit of",
}


@pytest.mark.parametrize("make", BOMBS, ids=lambda make: make.__name__)
def test_bombs_are_refused_in_one_line(tmp_path, pack, make):
    name = make(tmp_path)
    with little_memory():
        code, out = pack(name)
    assert code in (1, 2), out
    assert re.search(BOMBS[make], out), out
    left = {path.name for path in (tmp_path / "packed").rglob("*")}
    assert left <= {".packing", "listing", "lock", "00000.json"}, left


def test_files_with_much_in_common_are_no_bombs(tmp_path):
    """Masks of NPZ, which are inflated into a file, and rows of Parquet, written as is advised."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("x.npy", header(2**7 + 1, 2**20) + bytes((2**7 + 1) * 2**20))
    (array,) = open_npz(tmp_path, "a.npz", frozenset())
    assert array.rows == 2**7 + 1
    name = rows_of_parquet(tmp_path, use_dictionary=False, compression=None)
    check_memory((tmp_path / name).stat().st_size, pq.read_metadata(tmp_path / name))


def test_a_dictionary_of_small_values_is_decoded_many_rows_at_a_time(tmp_path, pack):
    """The column is larger than all values of its dictionary, which is what its rows repeat."""
    rows = 2**17
    names = [f"{number % 3}" * 999 for number in range(rows)]
    ids = pa.array(np.arange(rows) % 2**15)  # a dictionary of a quarter of a MiB
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"name": names, "id": ids}), path, compression="zstd")
    group = pq.read_metadata(path).row_group(0)
    assert all(group.column(number).has_dictionary_page for number in range(2))
    with path.open("rb") as file:
        assert rows_at_once(file, group, 4096) == 2**27 // (8 * 2**15)
        assert rows_at_once(file, group, 32) == 32
    code, out = pack("a.parquet", "--field", "name=label")
    assert (code, f"packed {rows} samples" in out) == (0, True), out


def test_a_bomb_costs_only_its_own_sample(tmp_path, pack):
    """A tar with a member that is too large, between two others."""
    size, good = MAX_FILE_BYTES + 512, io.BytesIO()
    Image.new("RGB", (9, 8)).save(good, "PNG")
    data = good.getvalue()
    one = data.ljust(-(-len(data) // 512) * 512, b"\0")
    head = member("0.png", len(data)) + one + member("1.png", size)
    sparse(tmp_path / "a.tar", head, len(head) + size)
    with (tmp_path / "a.tar").open("ab") as file:
        file.write(member("2.png", len(data)) + one + bytes(1024))
    with little_memory():
        code, out = pack("a.tar", "--skip-bad")
    assert code == 0, out
    assert "packed 2 samples" in out, out
    assert "1.png" in out or "a.tar/1" in out, out


def test_a_lack_of_memory_is_told_in_one_line(tmp_path, pack):
    """More than the process may have, of a file that has an honest size."""
    sparse(tmp_path / "a.json", b'{"images": [', 2 * SPARE)
    with little_memory():
        code, out = pack("a.json")
    assert (code, "the memory does not suffice to pack" in out) == (75, True), out


def test_claims_of_arrow_files_are_those_of_their_buffers(tmp_path):
    """Exact for good files, and never an exception for others."""
    words = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), ["y" * 2**18])
    table = pa.table({"x": [bytes(2**16)] * 2, "words": words})
    for new in (pa.ipc.new_file, pa.ipc.new_stream):
        for compression, claimed in ((None, 0), ("zstd", 2 * 2**17 + 2**18), ("lz4", 2**19)):
            out = pa.BufferOutputStream()
            options = pa.ipc.IpcWriteOptions(compression=compression)
            with new(out, table.schema, options=options) as writer:
                writer.write_table(table)
                writer.write_table(table)
            data = out.getvalue().to_pybytes()
            found = unpacked_bytes(memoryview(data))
            assert claimed <= found <= claimed + (200 if claimed else 0), (new, compression)
            for end in range(0, len(data), 97):
                assert 0 <= unpacked_bytes(memoryview(data[:end])) <= found
