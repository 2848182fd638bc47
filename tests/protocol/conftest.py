"""The published vectors, and a msgpack encoder of a dozen lines that knows nothing of the codec."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session")
def docs() -> Path:
    return DOCS


@pytest.fixture(scope="session")
def vectors() -> Callable[[str], dict]:
    def read(name: str) -> dict:
        return json.loads((DOCS / "contracts" / "vectors" / f"{name}.json").read_text())

    return read


def _packed(value: object) -> bytes:
    data = b""
    match value:
        case None | False | True:
            data = {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
        case float():
            data = b"\xcb" + struct.pack(">d", value)
        case int():
            data = _packed_int(value)
        case str():
            text = value.encode()
            data = bytes([0xA0 | len(text)]) if len(text) < 32 else _sized(0xD9, len(text))
            data += text
        case {"$bytes": digits}:
            data = _sized(0xC4, len(digits) // 2) + bytes.fromhex(digits)
        case list():
            data = _headed(0x90, 0xDC, len(value)) + b"".join(map(_packed, value))
        case dict():
            items = (part for pair in value.items() for part in pair)
            data = _headed(0x80, 0xDE, len(value)) + b"".join(map(_packed, items))
    return data


def _packed_int(value: int) -> bytes:
    if 0 <= value < 128:
        return bytes([value])
    kind = next(kind for kind in range(4) if value < 256 ** (2**kind))
    return bytes([0xCC + kind]) + value.to_bytes(2**kind, "big")


def _sized(first: int, size: int) -> bytes:
    kind = next(kind for kind in range(3) if size < 256 ** (2**kind))
    return bytes([first + kind]) + size.to_bytes(2**kind, "big")


def _headed(short: int, long: int, size: int) -> bytes:
    return bytes([short | size]) if size < 16 else bytes([long]) + size.to_bytes(2, "big")


@pytest.fixture(scope="session")
def packed() -> Callable[[object], bytes]:
    return _packed
