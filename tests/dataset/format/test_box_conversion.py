"""Boxes and keypoints: what is written is read, in every format, and what cannot be is refused."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.dataset import open_dataset, schema, write
from stoker.dataset.format.box_conversion import items_of
from stoker.dataset.limits import CodecError
from stoker.dataset.verify import verify
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import DatasetError, SampleError, UsageError
from stoker.protocol.ragged import unpack_items

SIZE = (60, 80)
PIXELS = np.zeros((*SIZE, 3), np.uint8)
LABELED = schema.boxes(fields={"label": "int64", "crowd": "bool", "vector": "float16[3]"})
PLAIN = schema.boxes()
POINTS = schema.keypoints(fields={"visible": "uint8"})


def labeled(count):
    corners = np.arange(count, dtype=np.float64)[:, None]
    return {
        "xyxy": np.hstack([corners, corners / 2, corners + 7.25, corners + 20]),
        "label": np.arange(count) * 2**40,
        "crowd": np.arange(count) % 2 == 1,
        "vector": np.arange(3 * count, dtype=np.float16).reshape(count, 3),
    }


def stored(field, value, size=SIZE):
    return unpack_items(field.items.fields, items_of(field, value, size))


@pytest.fixture
def rows():
    return [
        {
            "image": PIXELS,
            "boxes": labeled(count),
            "keypoints": {"xy": np.ones((count, 2)), "visible": np.ones(count, np.uint8)},
        }
        for count in (3, 0, 1, 5, 0)
    ]


@pytest.fixture
def path(tmp_path, rows):
    write(tmp_path / "d", [schema.image(), LABELED, POINTS], rows)
    return tmp_path / "d"


def test_what_is_written_is_read(path, rows):
    with open_dataset(path) as dataset:
        field = dataset.schema.field("boxes")
        assert field.bound == (5, 9)
        for number, row in enumerate(rows):
            records = dataset.read("boxes", number)
            assert records.dtype == np.uint32
            columns = unpack_items(field.items.fields, records)
            assert list(columns) == ["xyxy", "label", "crowd", "vector"]
            for name, expected in row["boxes"].items():
                assert np.array_equal(columns[name], expected), (number, name)
            assert columns["xyxy"].dtype == np.float32
            assert columns["crowd"].dtype == np.bool_
    assert verify(path).bad == 0


def test_other_programs_read_it(path):
    (file,) = path.glob("*.arrow")
    with pa.memory_map(str(file)) as source:
        column = pa.ipc.open_file(source).read_all()["boxes"]
    words = np.array(column[3].as_py(), np.uint32).reshape(5, 9)
    assert np.array_equal(words[:, :4].copy().view(np.float32), labeled(5)["xyxy"])
    assert np.array_equal(words[:, 4:6].copy().view(np.int64)[:, 0], labeled(5)["label"])


def test_fields_of_items_count_in_the_fingerprint(tmp_path, rows):
    def fingerprint(name, **fields):
        plain = [{"image": PIXELS, "boxes": {"xyxy": [[1, 2, 3, 4]], name: [1]}} for _ in rows]
        field = schema.boxes(fields=fields)
        return write(tmp_path / name, [schema.image(), field], plain).fingerprint

    found = [fingerprint("a", a="int32"), fingerprint("b", b="int32"), fingerprint("c", c="uint32")]
    assert len(set(found)) == 3


def test_rows_may_be_had_by_number_or_one_after_the_other(tmp_path, rows):
    class ByNumber:
        def __len__(self):
            return len(rows)

        def __getitem__(self, index):
            return rows[index % len(rows)]  # never raises IndexError, as many such classes

    fields = [schema.image(), LABELED, POINTS]
    prints = {
        write(tmp_path / str(number), fields, source).fingerprint
        for number, source in enumerate((rows, iter(rows), ByNumber()))
    }
    assert len(prints) == 1
    with pytest.raises(UsageError, match="expected an iterable of rows, or rows by number, got in"):
        write(tmp_path / "no", fields, 7)


@given(
    st.lists(
        st.tuples(*[st.integers(0, 8 * side) for side in (30, 30, 50, 30)]), min_size=0, max_size=6
    )
)
def test_formats_mean_the_same(given_boxes):
    """Eighths of pixels are exact in every format, so the formats agree to the last bit."""
    at = np.array(given_boxes, np.float64).reshape(-1, 4) / 8
    left, top, width, height = at.T
    corners = np.stack([left, top, left + width, top + height], 1)
    centers = np.stack([left + width / 2, top + height / 2, width, height], 1)
    scale = np.array([64, 64, 64, 64])
    size = (64, 128)
    expected = stored(PLAIN, corners, size)["xyxy"]
    assert np.array_equal(expected, corners.astype(np.float32))
    for form, value in (("xyxy", corners), ("xywh", at), ("cxcywh", centers)):
        assert np.array_equal(stored(PLAIN, {form: value}, size)["xyxy"], expected)
        parts = value / (scale * [2, 1, 2, 1])
        assert np.array_equal(stored(PLAIN, {f"relative_{form}": parts}, size)["xyxy"], expected)


def test_keypoints_as_indices_of_pixels():
    """Index i is the coordinate i + 0.5; an index in the last half pixel becomes the edge."""
    size, field = (10, 20), schema.keypoints()
    indices = [[0, 0], [19, 9], [3.25, 4], [20, 10], [19.75, 2]]
    expected = [[0.5, 0.5], [19.5, 9.5], [3.75, 4.5], [20, 10], [20, 2.5]]
    assert stored(field, {"pixel_xy": indices}, size)["xy"].tolist() == expected
    parts = (np.array(indices) / [20, 10]).tolist()
    found = stored(field, {"relative_pixel_xy": parts}, size)["xy"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(CodecError, match="keypoints are outside their image of 10x20"):
        items_of(field, {"pixel_xy": [[20.25, 3]]}, size)


def test_relative_keypoints():
    found = stored(schema.keypoints(), {"relative_xy": [[0.5, 0.25], [1, 1]]})["xy"]
    assert found.tolist() == [[40, 15], [80, 60]]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (PLAIN, [[0, 0, np.nan, 4]], "expected finite numbers, got item 0"),
        (PLAIN, {"xywh": [[0, 0, np.inf, 4]]}, "expected finite numbers"),
        (PLAIN, [[1, 1, 2, 2], [5, 0, 4, 9]], "negative size.* item 1: .5.0, 0.0, 4.0, 9.0.; give"),
        (PLAIN, {"xywh": [[5, 5, -1, 3]]}, "negative size"),
        (PLAIN, [[0, 0, 80.5, 4]], "outside their image of 60x80.*clip them"),
        (PLAIN, [[-0.5, 0, 8, 4]], "outside their image"),
        (PLAIN, [[1e300, 0, 2e300, 4]], "does not fit float32"),
        (PLAIN, [[0, 0, 4]], r"expected shape \(n, 4\), got \(1, 3\)"),
        (PLAIN, {"xyxy": [[0, 0, 1, 1]], "xywh": [[0, 0, 1, 1]]}, "expected one of xyxy, xywh"),
        (PLAIN, {"corners": []}, "got corners"),
        (PLAIN, [["a"] * 4], "expected float64"),
        (POINTS, {"xy": [[1, 1]]}, "expected one of xy, pixel_xy, relative_xy, .*"),
        (POINTS, {"xy": [[1, 1]], "visible": [1, 0]}, r"visible: expected shape \(1,\), got"),
        (POINTS, {"xy": [[1, 1]], "visible": [300]}, "does not fit uint8"),
        (POINTS, {"xy": [[81, 1]], "visible": [1]}, "keypoints are outside"),
        (LABELED, {**labeled(1), "vector": [[1.0, 2.0]]}, r"expected shape \(1, 3\)"),
    ],
)
def test_impossible_items_are_refused(field, value, said):
    with pytest.raises(CodecError, match=said):
        items_of(field, value, SIZE)


def test_without_a_picture(tmp_path):
    alone = schema.boxes(of=None)
    assert stored(alone, [[-5, 0, 5000, 4]], None)["xyxy"].tolist() == [[-5, 0, 5000, 4]]
    with pytest.raises(CodecError, match="they belong to no image"):
        items_of(alone, {"relative_xyxy": [[0, 0, 1, 1]]}, None)
    with pytest.raises(
        UsageError, match=r"expected the name of an image or mask, .* got 'image'; give of="
    ):
        write(tmp_path / "d", [schema.label(), schema.boxes()], [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda field: field["items"]["fields"][1].__setitem__(1, "object"), "expected items of"),
        (lambda field: field["items"]["fields"][1].__setitem__(2, 2), "expected items of"),
        (lambda field: field["items"].update(fields=[]), "expected items of"),
        (lambda field: field["items"].update(of="label"), "expected the name of an image or mask"),
        (lambda field: field.pop("items"), "expected items"),
        (lambda field: field.update(kind="keypoints"), "expected items of xy"),
        (lambda field: field.update(shape=[None, 8], bound=[5, 8]), "expected items of"),
    ],
)
def test_damaged_descriptions_are_refused(path, change, said):
    data = json.loads((path / "manifest.json").read_text())
    del data["checksum"]
    change(next(field for field in data["schema"]["fields"] if field["name"] == "boxes"))
    data["checksum"] = canonical_digest(data)
    (path / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(DatasetError, match=said):
        open_dataset(path)


def test_more_items_than_the_bound_are_a_bad_sample(path):
    data = json.loads((path / "manifest.json").read_text())
    del data["checksum"]
    next(field for field in data["schema"]["fields"] if field["name"] == "boxes")["bound"][0] = 3
    data["checksum"] = canonical_digest(data)
    (path / "manifest.json").write_text(json.dumps(data))
    with open_dataset(path) as dataset:
        assert len(dataset.read("boxes", 0)) == 3
        with pytest.raises(SampleError, match=r"up to \(3, 9\)"):
            dataset.read("boxes", 3)
