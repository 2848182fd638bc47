"""Offsets of the members of a tar, against the standard library; damage is named by its byte."""

import contextlib
import io
import os
import tarfile

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from stoker.dataset.sources.formats.tar import BLOCK, TarError, TarMember, read_members

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
NAMES = ["a.jpg", "folder/b.seg.png", "x" * 90 + ".txt", "deep/" * 20 + "c.json", "empty.cls"]


def write(path, members, form=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=form) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def by_the_standard_library(path) -> list[TarMember]:
    with tarfile.open(path, "r:") as tar:
        return [TarMember(m.name, m.offset_data, m.size) for m in tar if m.isfile()]


@pytest.mark.parametrize("form", FORMATS)
def test_members_are_those_of_the_standard_library(tmp_path, form):
    long = [] if form == tarfile.USTAR_FORMAT else [("ü/" + "long" * 80 + ".jpg", b"12345")]
    members = [(name, name.encode() * (number * 37)) for number, name in enumerate(NAMES)]
    write(tmp_path / "a.tar", [*members, *long, ("last.txt", b"x")], form)
    found = list(read_members(tmp_path / "a.tar"))
    assert found == by_the_standard_library(tmp_path / "a.tar")
    assert [member.name for member in found] == [*NAMES, *(name for name, _ in long), "last.txt"]
    data = (tmp_path / "a.tar").read_bytes()
    assert data[found[1].offset :][: found[1].size_bytes] == members[1][1]


def test_folders_and_links_are_passed_by(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE):
            info = tarfile.TarInfo(f"other-{kind.decode()}")
            info.type, info.linkname = kind, "a"
            tar.addfile(info)
        tar.addfile(tarfile.TarInfo("empty.txt"))
    assert list(read_members(tmp_path / "a.tar")) == [TarMember("empty.txt", 4 * BLOCK, 0)]


def test_sizes_beyond_octal_digits(tmp_path):
    """A sparse file on disk, with a member of 9 GiB: GNU's binary size, and pax's decimal one."""
    size = 9 * 2**30
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        info = tarfile.TarInfo("big.bin")
        info.size = size
        head = info.tobuf(form)
        with open(tmp_path / "a.tar", "wb") as file:
            file.write(head)
            file.truncate(len(head) + size)
        assert list(read_members(tmp_path / "a.tar")) == [TarMember("big.bin", len(head), size)]


def broken(path, reason):
    members = read_members(path)
    with pytest.raises(TarError, match=reason):
        for _ in members:
            pass


def test_a_tar_that_is_cut_short(tmp_path):
    write(tmp_path / "a.tar", [("a.jpg", bytes(1000)), ("b.jpg", bytes(1000))])
    whole = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "b.tar").write_bytes(whole[:2000])
    members = read_members(tmp_path / "b.tar")
    assert next(members).name == "a.jpg"
    with pytest.raises(
        TarError,
        match=r"at byte 1536: the archive ends inside a header: it is truncated",
    ):
        next(members)
    (tmp_path / "c.tar").write_bytes(whole[:2100])
    broken(
        tmp_path / "c.tar",
        r"at byte 1536: the member 'b.jpg' has 1000 bytes, but the archive ends after 52 of them",
    )
    (tmp_path / "d.tar").write_bytes(whole[:3072])  # without the blocks that end it
    assert [member.name for member in read_members(tmp_path / "d.tar")] == ["a.jpg", "b.jpg"]


def test_damage_is_named_by_its_byte(tmp_path):
    write(tmp_path / "a.tar", [("a.jpg", bytes(1000)), ("b.jpg", bytes(1000))])
    data = bytearray((tmp_path / "a.tar").read_bytes())
    data[1536 + 130] ^= 1
    (tmp_path / "a.tar").write_bytes(data)
    broken(tmp_path / "a.tar", r"at byte 1536: expected a tar header with a valid checksum")
    (tmp_path / "b.tar").write_bytes(b"")
    broken(tmp_path / "b.tar", "at byte 0: it is empty")
    for name, mode in (("gzip", "w:gz"), ("bzip2", "w:bz2"), ("xz", "w:xz")):
        with tarfile.open(tmp_path / "c.tar", mode) as tar:
            tar.addfile(tarfile.TarInfo("a.txt"))
        broken(tmp_path / "c.tar", f"it is compressed with {name}; decompress it first")


def header(**fields) -> bytes:
    info = tarfile.TarInfo("a.bin")
    for name, value in fields.items():
        setattr(info, name, value)
    return info.tobuf(tarfile.GNU_FORMAT)


def again(data: bytes) -> bytes:
    """Return a header with the checksum that its bytes have."""
    bare = data[:148] + b" " * 8 + data[156:BLOCK]
    return data[:148] + b"%06o\0 " % sum(bare) + data[156:BLOCK]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            header(type=tarfile.GNUTYPE_SPARSE),
            "the member 'a.bin' is sparse; store it as a regular file",
        ),
        (header(type=b"Z"), "the member 'a.bin' has the unknown type b'Z'; store regular files"),
        (
            again(header()[:124] + b"00000x00000\0" + header()[136:]),
            "expected octal digits as a size, got b'00000x00000",
        ),
        (
            header(type=tarfile.GNUTYPE_LONGNAME, size=5000) + bytes(5120),
            "a record about a member has 5000 bytes, more than 4096",
        ),
        (
            header(type=tarfile.XHDTYPE, size=12) + b"99 path=abc\n".ljust(512, b"\0") + header(),
            "a pax record is damaged: b'99 path=abc",
        ),
        (
            header(type=tarfile.XHDTYPE, size=10) + b"10 size=x\n".ljust(512, b"\0") + header(),
            "expected digits as a size, got b'x'",
        ),
        (
            header(type=tarfile.XHDTYPE, size=22)
            + b"22 GNU.sparse.major=1\n".ljust(512, b"\0")
            + header(),
            "a member is sparse; store it as a regular file",
        ),
        (
            header(type=tarfile.XHDTYPE, size=5010)
            + (b"5010 path=" + b"x" * 4999 + b"\n").ljust(5120, b"\0")
            + header(),
            "a name has 4999 bytes, more than 4096",
        ),
    ],
)
def test_what_is_no_run_of_bytes_is_refused(tmp_path, data, reason):
    (tmp_path / "a.tar").write_bytes(data + bytes(1024))
    broken(tmp_path / "a.tar", reason)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_archives_never_crash_or_hang(tmp_path_factory, data):
    """Whatever the bytes are: members inside the file, or a typed error."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("a.jpg", "ü" * 60 + ".png", "b.cls"):
            info = tarfile.TarInfo(name)
            info.size = 700
            tar.addfile(info, io.BytesIO(bytes(700)))
    whole = bytearray(out.getvalue()[:6000])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    del whole[data.draw(st.integers(0, len(whole))) :]
    path = tmp_path_factory.getbasetemp() / "damaged.tar"
    path.write_bytes(whole)
    members = read_members(path)
    with contextlib.suppress(TarError):
        for member in members:
            assert 0 <= member.offset <= member.offset + member.size_bytes <= len(whole)
    os.unlink(path)
