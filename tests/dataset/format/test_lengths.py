"""Lengths of the fields of all samples, without reading any."""

import numpy as np
import pytest

from stoker.dataset import open_dataset, schema, write
from stoker.protocol.errors import UsageError

COUNTS = [3, 0, 17, 1, 9, 2]


@pytest.fixture(scope="module")
def sequences(tmp_path_factory):
    """Six samples of COUNTS elements, in every kind that has a length, in three files."""
    fields = [
        schema.array("tokens", "int32", (None,)),
        schema.array("frames", "float32", (None, 5)),
        schema.array("fixed", "uint8", (7,)),
        schema.blob("text"),
        schema.boxes(of=None),
        schema.scalar("count", "uint16"),
        schema.scalar("weight", "float32"),
        schema.image(encoding="raw"),
    ]
    rows = [
        {
            "tokens": np.arange(count, dtype=np.int32),
            "frames": np.zeros((count, 5), np.float32),
            "fixed": np.zeros(7, np.uint8),
            "text": b"x" * count,
            "boxes": {"xyxy": np.zeros((count, 4), np.float32)},
            "count": count,
            "weight": 0.5,
            "image": np.zeros((4, 4, 3), np.uint8),
        }
        for count in COUNTS
    ]
    dest = tmp_path_factory.mktemp("lengths") / "sequences"
    write(dest, fields, rows)
    with open_dataset(dest) as dataset:
        yield dataset


@pytest.mark.parametrize("field", ["tokens", "frames", "text", "boxes", "count"])
def test_lengths_are_those_of_the_samples(sequences, field):
    found = np.concatenate(list(sequences.lengths(field)))
    assert found.tolist() == COUNTS
    if field != "count":
        assert found.tolist() == [len(sequences.read(field, n)) for n in range(len(COUNTS))]


def test_a_fixed_length_is_one_for_all(sequences):
    assert np.concatenate(list(sequences.lengths("fixed"))).tolist() == [7] * len(COUNTS)


@pytest.mark.parametrize(
    ("field", "said"), [("weight", r"\(scalar float32\)"), ("image", r"\(image uint8\)")]
)
def test_what_has_no_length_is_refused(sequences, field, said):
    with pytest.raises(UsageError, match=rf"field '{field}' of dataset .* {said} has no length"):
        list(sequences.lengths(field))
