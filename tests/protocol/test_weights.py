"""Weights as the user gives them and as bytes, and what is refused from outside."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from stoker.protocol.canonical import canonical_bytes
from stoker.protocol.errors import UsageError
from stoker.protocol.weights import (
    MAX_WEIGHTED_ROWS,
    ClassWeights,
    FieldWeights,
    SampleWeights,
    weights_from_bytes,
    weights_of,
)


@pytest.mark.parametrize("kinds", [1, 2, 256, 257, 65536, 65537])
def test_weights_of_samples_and_back(kinds):
    values = np.arange(1, kinds + 1) ** 0.5
    values = np.concatenate([values[::-1], values[:3]])
    found = weights_from_bytes(weights_of(values).to_bytes())
    assert isinstance(found, SampleWeights)
    assert found.values.tolist() == values.tolist()


def test_the_bytes_of_weights_of_samples():
    data = weights_of([2, 0, 2]).to_bytes()
    body = struct.pack("<QQdd", 3, 2, 0.0, 2.0) + bytes([1, 0, 1])
    assert (data[0], zlib.decompress(data[1:])) == (0, body)


def test_ten_million_samples_of_a_thousand_classes_fit_into_a_message():
    labels = np.repeat(np.arange(1000), 10_000)
    assert len(weights_of(1 / (labels + 1.0)).to_bytes()) < 2**21


def test_the_other_forms():
    assert weights_from_bytes(weights_of("quality").to_bytes()) == FieldWeights("quality")
    given = {"cat": 1, 7: 0.5, np.int64(2): np.float32(3)}
    found = weights_from_bytes(weights_of(given).to_bytes())
    assert found == ClassWeights({"cat": 1.0, 7: 0.5, 2: 3.0})
    turned = dict(reversed(given.items()))
    assert weights_of(turned).to_bytes() == weights_of(given).to_bytes()


def test_text_is_a_field_or_a_file(tmp_path, monkeypatch):
    """A name that could be a field is one; a path, or text with a dot or slash, is a file."""
    monkeypatch.chdir(tmp_path)
    np.save("w.npy", np.array([1, 2], np.int16))
    Path("w").write_text("# of my run\n1\n\n2\n")
    assert isinstance(weights_of("w"), FieldWeights)
    for file in ("w.npy", "./w", Path("w"), tmp_path / "w.npy"):
        assert weights_of(file).values.tolist() == [1.0, 2.0]
    Path("w").write_text("1\ntwo\n")
    with pytest.raises(UsageError, match=r"weights: \./w, line 2: expected a finite .*'two'"):
        weights_of("./w")
    np.save("o.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(UsageError, match=r"cannot read o\.npy: Object arrays cannot be loaded"):
        weights_of("o.npy")


def packed(*numbers, body=b""):
    return b"\0" + zlib.compress(struct.pack(f"<{len(numbers)}Q", *numbers) + body)


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"\0junk",
        packed(),
        packed(1, 1),
        packed(1, 1, body=struct.pack("<dB", 1, 1)),
        packed(1, 1, body=struct.pack("<dBB", 1, 0, 0)),
        packed(1, 1, body=struct.pack("<dB", 1, 0)) + b"more",
        packed(MAX_WEIGHTED_ROWS + 1, 1),
        packed(2**63, 0),
        packed(1, 2**17),
        packed(0, 0),
        packed(1, 0, body=struct.pack("<d", float("nan"))),
        packed(1, 0, body=struct.pack("<d", -1)),
        packed(1, 0, body=struct.pack("<d", 0)),
        b"{",
        b"[]",
        b"7",
        canonical_bytes({}),
        canonical_bytes({"field": 7}),
        canonical_bytes({"field": "../w"}),
        canonical_bytes({"field": "w", "more": 1}),
        canonical_bytes({"classes": 7}),
        canonical_bytes({"classes": [["cat"]]}),
        canonical_bytes({"classes": [["cat", None]]}),
        canonical_bytes({"classes": [[["cat"], 1]]}),
        canonical_bytes({"classes": [["cat", 1]], "more": 1}),
        b'{"field": "w"}',
    ],
)
def test_bytes_that_are_no_weights(data):
    with pytest.raises(UsageError, match=r"^weights"):
        weights_from_bytes(data)
