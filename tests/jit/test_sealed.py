"""Digests of the files of the kernel cache."""

import io

import pytest

from stoker.jit.sealed import DamagedError, check_seal, sealing


def test_every_bit_and_every_length_counts(tmp_path):
    file, path = io.BytesIO(), tmp_path / "f-1.nbc"
    with sealing(file, "f-1.nbc") as sealed:
        assert sealed.write(b"machine ") == 8
        sealed.write(b"code")
    whole = file.getvalue()
    path.write_bytes(whole)
    check_seal(str(path), "f-1.nbc")
    flipped = [
        whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
        for at in range(len(whole))
        for bit in range(8)
    ]
    for content in [*flipped, *(whole[:size] for size in range(len(whole))), whole + b"x"]:
        path.write_bytes(content)
        with pytest.raises(DamagedError, match=r"f-1\.nbc is damaged"):
            check_seal(str(path), "f-1.nbc")


def test_the_file_of_another_kernel_is_not_taken(tmp_path):
    file, path = io.BytesIO(), tmp_path / "f-1.nbc"
    with sealing(file, "g-1.nbc") as sealed:
        sealed.write(b"machine code")
    path.write_bytes(file.getvalue())
    with pytest.raises(DamagedError):
        check_seal(str(path), "f-1.nbc")
