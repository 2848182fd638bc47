"""Arrow's own library reads our files and finds the same values at the same bytes."""

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.ipc
import pytest

from stoker.dataset import open_dataset, schema
from stoker.dataset.format.arrow import ALIGN, ITEM_BYTES, parse_type
from stoker.dataset.packing.build import Cut, write_dataset

NUMBERS = [name for name in ITEM_BYTES if name != "bool"]


@pytest.fixture
def folder(tmp_path, photographs, to_jpeg):
    fields = (
        schema.image(),
        schema.mask(),
        schema.label(),
        schema.scalar("night", "bool"),
        schema.array("matrix", "float32", (2, 3)),
        schema.array("boxes", "int16", (None, 2)),
        schema.blob("caption"),
        *(schema.scalar(f"number_{name}", name) for name in NUMBERS),
    )
    rows = [
        {
            "image": to_jpeg(pixels),
            "mask": pixels[:, :, 0] // 64,
            "label": number - 2,
            "night": number % 2 == 1,
            "matrix": np.arange(6, dtype=np.float32).reshape(2, 3) + number,
            "boxes": np.arange(2 * number, dtype=np.int16).reshape(number, 2),
            "caption": b"caption " * number,
            **{f"number_{name}": np.array(number, name)[()] for name in NUMBERS},
        }
        for number, pixels in enumerate(photographs.values())
    ]
    write_dataset(tmp_path / "d", schema.Schema(fields), rows, cut=Cut(rows=4))
    return tmp_path / "d"


def test_arrow_reads_every_value(folder):
    with open_dataset(folder) as dataset:
        table = pyarrow.dataset.dataset(
            [str(folder / file.name) for file in dataset.manifest.files], format="ipc"
        ).to_table()
        assert table.num_rows == len(dataset) == 6
        table.validate(full=True)
        for number, row in enumerate(table.to_pylist()):
            assert row["image"] == dataset.read("image", number)
            assert (row["image.height"], row["image.width"]) == dataset.size("image", number)
            assert row["image.orientation"] == 1
            assert row["caption"] == dataset.read("caption", number)
            assert row["label"] == dataset.read("label", number) == number - 2
            assert bool(row["night"]) == bool(dataset.read("night", number)) == (number % 2 == 1)
            assert row["matrix"] == dataset.read("matrix", number).reshape(-1).tolist()
            assert row["boxes"] == dataset.read("boxes", number).reshape(-1).tolist()
            assert row["stoker.digest"] == dataset.digest(number)
            for name in NUMBERS:
                assert row[f"number_{name}"] == dataset.read(f"number_{name}", number) == number


def test_one_batch_without_nulls_dictionaries_or_compression(folder):
    with open_dataset(folder) as dataset:
        for file in dataset.manifest.files:
            reader = pa.ipc.open_file(pa.memory_map(str(folder / file.name)))
            assert reader.num_record_batches == 1
            assert not any(field.nullable for field in reader.schema)
            assert reader.schema.field("image").type == pa.large_binary()
            assert not any(pa.types.is_dictionary(field.type) for field in reader.schema)


def test_the_manifest_places_every_buffer_where_arrow_finds_it(folder):
    """Memory-mapped by Arrow, a buffer's address less the map's is its offset in the file."""
    with open_dataset(folder) as dataset:
        for file in dataset.manifest.files:
            source = pa.memory_map(str(folder / file.name))
            whole = source.read_buffer()
            source.seek(0)
            batch = pa.ipc.open_file(source).get_batch(0)
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                found = [
                    (buffer.address - whole.address, buffer.size)
                    for buffer in column.buffers()
                    if buffer is not None
                ]
                place = file.columns[name]
                extents = [place.offsets, place.data] if place.offsets else [place.data]
                assert found == [(e.offset, e.length) for e in extents], name
                assert all(extent.offset % ALIGN == 0 for extent in extents)


def test_arrow_reads_it_as_a_stream_too(folder):
    """The messages between the magic and the footer are a stream of their own."""
    with open_dataset(folder) as dataset:
        file = dataset.manifest.files[0]
    data = (folder / file.name).read_bytes()
    assert pa.ipc.open_stream(pa.BufferReader(data[8:])).read_all().num_rows == file.rows


@pytest.mark.parametrize("text", ["int7", "large_list", "float32[0]", "float32[2,?]", "int8[", ""])
def test_unknown_column_types_are_refused(text):
    with pytest.raises(ValueError, match="expected a column type such as large_binary"):
        parse_type(text)
