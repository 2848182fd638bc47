"""Optional fields: what a dataset holds for samples that lack one, and what forgetting it costs."""

import csv
import io
import sys
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skimage.data
from PIL import Image

from stoker import ops
from stoker.dataset import open_dataset, schema, write
from stoker.dataset.packing.in_place import make_index
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.reading.describe import describe
from stoker.dataset.sources.formats.object_reader import load_object
from stoker.dataset.verify import verify
from stoker.pipeline import pipeline
from stoker.protocol.errors import DatasetError, SampleError, UsageError
from stoker.server.rows.reference import make_spec, reference_batches

PHOTO = skimage.data.coffee()[:40, :60]
MASK = PHOTO[:, :, 0] // 64
CLASSES = ("cup", "spoon")


def packed(source, dest, **fields):
    return pack(source, dest, Options(workers=1, fields=fields))


@pytest.fixture
def folders(tmp_path):
    """Images a, b and c, of which b has no mask."""
    root = tmp_path / "s"
    for folder in ("images", "masks"):
        (root / folder).mkdir(parents=True)
    for name in "abc":
        Image.fromarray(PHOTO).save(root / f"images/{name}.png")
    for name in "ac":
        Image.fromarray(MASK).save(root / f"masks/{name}.png")
    return root


def pixels(dataset, name, number):
    return dataset.decode(name, number, np.empty(2**16, np.uint8))


def test_a_missing_file_of_parallel_folders(tmp_path, folders):
    with pytest.raises(DatasetError, match=r"images/b.png: its partner is missing: expected "
                       r"masks/b\.\*; .*--field masks=mask,fill=255"):  # fmt: skip
        packed(folders, tmp_path / "d")
    report = packed(folders, tmp_path / "d", masks="mask,fill=255")
    assert [(n.what, n.count, n.examples) for n in report.manifest.statistics.notes] == [
        ("mask: absent, so filled", 1, ("images/b.png",))
    ]
    with open_dataset(tmp_path / "d") as dataset:
        assert [field.name for field in dataset.schema.fields] == ["image", "mask", "mask_present"]
        field = dataset.schema.field("mask")
        assert (field.optional, field.fill) == (True, 255)
        assert [bool(dataset.read("mask_present", number)) for number in range(3)] == [1, 0, 1]
        assert np.array_equal(pixels(dataset, "mask", 0), MASK)
        assert np.array_equal(pixels(dataset, "mask", 1), np.full((40, 60), 255))
    assert verify(tmp_path / "d").holds


def test_conditions_and_batches_show_what_is_present(tmp_path, folders):
    @pipeline
    def train(sample):
        image = sample.image
        if sample.mask_present:
            image = ops.invert(image, p=1.0)
        return {"image": image, "mask": sample.mask, "present": sample.mask_present}

    packed(folders, tmp_path / "d", masks="mask,fill=255")
    spec = make_spec(tmp_path / "d", train.graph(), batch_size=3)
    ((_, batch),) = reference_batches(tmp_path / "d", train.graph(), spec)
    order = np.argsort(batch["index"])
    assert batch["present"][order].tolist() == [True, False, True]
    assert np.array_equal(batch["image"][order], np.stack([255 - PHOTO, PHOTO, 255 - PHOTO]))
    assert (batch["mask"][order[1]] == 255).all()


def table(path, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["image", "mask", "class", "age", "note"], *rows])
    return path


def test_empty_cells_of_a_csv(tmp_path, folders):
    rows = [
        ["images/a.png", "masks/a.png", "cup", "3", "old"],
        ["images/b.png", "", "", "", ""],
    ]
    path = table(folders / "all.csv", rows)
    with pytest.raises(DatasetError, match=r"all.csv:3: column 'mask' is empty; .*--field "
                       r"mask=mask,fill=255"):  # fmt: skip
        packed(path, tmp_path / "d")
    kinds = {"mask": "mask,fill=255", "class": "label,fill=-1", "age": "int64,fill=-1"}
    packed(path, tmp_path / "d", **kinds, note="text,optional")
    with open_dataset(tmp_path / "d") as dataset:
        got = {
            name: [dataset.read(name, number).tolist() for number in (0, 1)]
            for name in ("label", "age", "mask_present", "label_present", "age_present")
        }
        assert got.pop("label") == [0, -1]
        assert got.pop("age") == [3, -1]
        assert [bytes(dataset.read("note", number)) for number in (0, 1)] == [b"old", b""]
        assert all(found == [1, 0] for found in got.values())
        assert dataset.schema.field("label").classes == ("cup",)
        shown = [sample["fields"]["label"] for sample in describe(dataset, 2)["samples"]]
        assert shown == ["0 (cup)", "-1"]
    rows[1][1] = "masks/typo.png"
    table(path, rows)
    with pytest.raises(DatasetError, match=r"masks/typo.png: it cannot be read: No such file"):
        packed(path, tmp_path / "e", **kinds, note="text,optional")


FIELDS = (
    schema.image(encoding="raw"),
    schema.optional(schema.mask(), fill=255),
    schema.optional(schema.boxes(fields={"label": "int64", "rgb": "float32[3]"})),
    schema.optional(schema.label(classes=CLASSES), fill=-1),
    schema.optional(schema.scalar("weight"), fill=0.5),
    schema.optional(schema.array("pose", "float32", (2, 2)), fill=-1),
    schema.optional(schema.array("track", "float32", (None, 2))),
    schema.optional(schema.scalar("night", "bool"), fill=0),
)
WHOLE = {
    "image": PHOTO,
    "mask": MASK,
    "boxes": {"xyxy": [[1, 2, 3, 4]], "label": [1], "rgb": [[1, 2, 3]]},
    "label": 1,
    "weight": 2.0,
    "pose": np.ones((2, 2), np.float32),
    "track": np.ones((3, 2), np.float32),
    "night": True,
}


def test_rows_that_lack_fields(tmp_path):
    rows = [WHOLE, {"image": PHOTO[:20]}, {**WHOLE, "mask": None}]
    write(tmp_path / "d", FIELDS, rows)
    with open_dataset(tmp_path / "d") as dataset:
        for name in WHOLE.keys() - {"image"}:
            present = [bool(dataset.read(f"{name}_present", number)) for number in range(3)]
            assert present == [True, False, name != "mask"], name
        assert (pixels(dataset, "mask", 1) == np.full((20, 60), 255)).all()
        assert (pixels(dataset, "mask", 2) == np.full((40, 60), 255)).all()
        assert [len(dataset.read("boxes", number)) for number in range(3)] == [1, 0, 1]
        assert [len(dataset.read("track", number)) for number in range(3)] == [3, 0, 3]
        scalars = [dataset.read(name, 1).tolist() for name in ("label", "weight", "night")]
        assert scalars == [-1, 0.5, 0]
        assert dataset.read("pose", 1).tolist() == [[-1, -1], [-1, -1]]


def test_an_absent_image_is_one_pixel_if_nothing_gives_its_size(tmp_path):
    fields = [schema.optional(schema.image(), fill=127), schema.label()]
    write(tmp_path / "d", fields, [{"label": 1}, {"image": PHOTO, "label": 2}])
    with open_dataset(tmp_path / "d") as dataset:
        assert pixels(dataset, "image", 0).tolist() == [[[127, 127, 127]]]
        assert dataset.size("image", 1) == (40, 60)


def test_a_forgotten_declaration_names_row_field_and_remedy(tmp_path):
    fields = [schema.image(), schema.mask(), schema.boxes()]
    whole = {"image": PHOTO, "mask": MASK, "boxes": []}
    with pytest.raises(UsageError, match=r"row 1: expected the fields boxes, image, mask, got "
                       r"boxes, image; if samples may lack mask, .* schema.optional"):  # fmt: skip
        write(tmp_path / "d", fields, [whole, {"image": PHOTO, "boxes": []}], overwrite=True)
    with pytest.raises(DatasetError, match=r"row 0, field 'mask': its value is absent; .*"
                       r"schema.optional\(..., fill=255\)"):  # fmt: skip
        write(tmp_path / "d", fields, [{**whole, "mask": None}], overwrite=True)
    with pytest.raises(DatasetError, match=r"field 'boxes': its value is absent; .*"
                       r"schema.optional\(schema.boxes\('boxes'\)\)"):  # fmt: skip
        write(tmp_path / "d", fields, [{**whole, "boxes": None}], overwrite=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schema.optional(schema.mask()), "'mask': expected a fill, the number that an abs"),
        (lambda: schema.optional(schema.mask(), fill=256), "a fill that fits uint8, got 256"),
        (lambda: schema.optional(schema.label(), fill=0.5), "a fill that fits int64, got 0.5"),
        (lambda: schema.optional(schema.scalar("w"), fill=np.nan), "fits float32, got nan"),
        (lambda: schema.optional(schema.scalar("w", "bool"), fill=2), "a fill that fits bool"),
        (lambda: schema.optional(schema.boxes(), fill=0), "no fill for an optional boxes of any"),
        (lambda: schema.optional(schema.image(encoding="jpeg"), fill=0), "the encoding jpeg, nor"),
    ],
)
def test_impossible_fills(make, message):
    with pytest.raises(UsageError, match=message):
        make()


MODULE = """
import numpy as np
from stoker.dataset import schema

class Rows:
    classes = ["cup", "spoon"]
    rows = [
        {"image": np.zeros((8, 9, 3), np.uint8), "mask": np.ones((8, 9), np.uint8), "label": "cup"},
        {"image": np.zeros((8, 9, 3), np.uint8), "label": "spoon"},
        {"image": np.zeros((8, 9, 3), np.uint8), "mask": None, "label": None},
    ]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        return self.rows[index]

class Reversed(Rows):
    rows = Rows.rows[::-1]

class Late(Rows):
    rows = Rows.rows[1::-1]

class Live(Rows):
    fields = (
        schema.bounded(schema.image(encoding="raw"), 8, 9),
        schema.bounded(schema.optional(schema.mask(encoding="raw"), fill=7), 8, 9),
        schema.optional(schema.label(classes=("cup", "spoon")), fill=-1),
    )
    fingerprint = "1"
    def __getitem__(self, index):
        row = dict(self.rows[index])
        label = row.pop("label", None)
        return row | ({} if label is None else {"label": self.classes.index(label)})

class Forgetful(Live):
    fields = (*Live.fields[:1], schema.bounded(schema.mask(encoding="raw"), 8, 9), Live.fields[2])
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_rows.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("my_rows", None)
    load_object.cache_clear()


def test_rows_of_an_object(module):
    with pytest.raises(DatasetError, match=r"my_rows:Rows\[1\]: its row has no mask, only image, "
                       r"label; .*--field mask=mask,fill=255"):  # fmt: skip
        packed("my_rows:Rows", module / "d")
    with pytest.raises(UsageError, match=r"Reversed\[0\]: 'mask' is None, .*mask=mask,fill=255"):
        packed("my_rows:Reversed", module / "d")
    with pytest.raises(
        DatasetError, match=r"Late\[1\]: its row has 'mask', which the first row la"
    ):
        packed("my_rows:Late", module / "d")
    kinds = {"mask": "mask,fill=9", "label": "label,fill=-1"}
    packed("my_rows:Rows", module / "d", **kinds)
    packed("my_rows:Reversed", module / "e", **kinds)
    for name, order in (("d", 1), ("e", -1)):
        with open_dataset(module / name) as dataset:
            labels = [int(dataset.read("label", number)) for number in range(3)]
            assert labels[::order] == [0, 1, -1]
            means = [pixels(dataset, "mask", number).mean() for number in range(3)]
            assert means[::order] == [1, 9, 9]


def test_live_sources(module):
    with open_dataset("my_rows:Live") as dataset:
        assert [int(dataset.read("label", number)) for number in range(3)] == [0, 1, -1]
        assert [int(dataset.read("mask_present", number)) for number in range(3)] == [1, 0, 0]
        assert [int(dataset.read("mask", number)[0, 0]) for number in range(3)] == [1, 7, 7]
    with (
        open_dataset("my_rows:Forgetful") as dataset,
        pytest.raises(SampleError, match=r"id 1: .* declare what samples may lack with schema"),
    ):
        dataset.read("image", 1)


def test_adding_samples_keeps_the_declaration(tmp_path, folders):
    packed(folders, tmp_path / "d", masks="mask,fill=255")
    Image.fromarray(PHOTO).save(folders / "images/d.png")
    Image.fromarray(MASK).save(folders / "masks/d.png")
    more = {"workers": 1, "append": True}
    with pytest.raises(UsageError, match=r"optional with the fill 255 in the dataset"):
        pack(folders, tmp_path / "d", Options(fields={"masks": "mask,fill=0"}, **more))
    (folders / "masks/d.png").unlink()
    pack(folders, tmp_path / "d", Options(fields={"masks": "mask,fill=255"}, **more))
    with open_dataset(tmp_path / "d") as dataset:
        assert [bool(dataset.read("mask_present", number)) for number in range(4)] == [1, 0, 1, 0]


def test_nulls_in_rows_of_a_hugging_face_dataset(tmp_path):
    """The row of an image may be null, or have null bytes and a null path."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    png = encoded(PHOTO)
    columns = {
        "image": pa.array([{"bytes": png, "path": None}] * 3, kind),
        "mask": pa.array([{"bytes": encoded(MASK), "path": None}, None,
                          {"bytes": None, "path": None}], kind),
        "age": pa.array([1, None, 3]),
        "note": pa.array(["old", "new", None]),
        "box": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    }  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    kinds = {"mask": "mask,fill=255", "age": "int64,fill=-1", "box": "float32[2],fill=0"}

    def rows_packed(**fields):
        return pack(
            tmp_path / "a.parquet",
            tmp_path / "d",
            Options(kind="huggingface", workers=1, fields=fields),
        )

    with pytest.raises(DatasetError, match=r"field 'note': .* got null; if samples may lack it"):
        rows_packed(**kinds)
    rows_packed(**kinds, note="text,optional")
    with open_dataset(tmp_path / "d") as dataset:
        for name, there in (
            ("mask", [1, 0, 0]), ("age", [1, 0, 1]), ("note", [1, 1, 0]), ("box", [1, 0, 1])
        ):  # fmt: skip
            found = [bool(dataset.read(f"{name}_present", number)) for number in range(3)]
            assert found == there, name
        assert [int(dataset.read("age", number)) for number in range(3)] == [1, -1, 3]
        assert dataset.read("box", 1).tolist() == [0, 0]
        assert np.array_equal(pixels(dataset, "mask", 0), MASK)
        assert np.array_equal(pixels(dataset, "mask", 2), np.full((40, 60), 255))


def test_members_that_samples_in_tars_lack(tmp_path):
    jpg, png = encoded(PHOTO, "JPEG"), encoded(MASK)
    members = [
        ("a.jpg", jpg), ("a.seg.png", png), ("a.cls", b"1"), ("a.txt", b"old"),
        ("b.jpg", jpg), ("b.cls", b"0"),
        ("c.jpg", jpg), ("c.seg.png", png),
    ]  # fmt: skip
    path = tmp_path / "s.tar"
    with tarfile.open(path, "w") as file:
        for name, data in members:
            part = tarfile.TarInfo(name)
            part.size = len(data)
            file.addfile(part, io.BytesIO(data))
    kinds = {"seg.png": "mask,fill=255", "txt": "text,optional", "cls": "label,fill=-1"}

    def tar_packed(fields, **more):
        return pack(path, tmp_path / "d", Options(workers=1, fields=fields, **more))

    for left, said in (
        ("seg.png", "s.tar/b: it has no member .seg.png, .*--field seg.png=mask,fill=255"),
        ("cls", "s.tar/c: it has no member .cls, .*--field cls=label,fill=-1"),
        ("txt", "s.tar/b: it has no member .txt, .*--field txt=bytes,optional"),
    ):
        with pytest.raises(DatasetError, match=said):
            tar_packed({name: kind for name, kind in kinds.items() if name != left})
    report = tar_packed(kinds)
    notes = {note.what: note.count for note in report.manifest.statistics.notes}
    assert notes == {
        "seg: absent, so filled": 1, "label: absent, so filled": 1, "txt: absent, so filled": 2,
    }  # fmt: skip
    with open_dataset(tmp_path / "d") as dataset:
        names = [field.name for field in dataset.schema.fields]
        assert names == ["image", "seg", "label", "txt", "seg_present", "label_present",
                         "txt_present"]  # fmt: skip
        assert [int(dataset.read("label", number)) for number in range(3)] == [1, 0, -1]
        assert [bytes(dataset.read("txt", number)) for number in range(3)] == [b"old", b"", b""]
        assert np.array_equal(pixels(dataset, "seg", 1), np.full((40, 60), 255))
        assert np.array_equal(pixels(dataset, "seg", 2), MASK)
    assert verify(tmp_path / "d").holds
    with pytest.raises(UsageError, match="samples may lack seg, label, txt, but an index has"):
        make_index(path, Options(workers=1, fields=kinds))


def encoded(array, kind="PNG"):
    """Return an image as a file."""
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind)
    return file.getvalue()


def test_sources_whose_samples_must_have_every_field(tmp_path):
    np.savez(tmp_path / "a.npz", image=np.zeros((2, 4, 4, 3), np.uint8), age=np.arange(2))
    with pytest.raises(UsageError, match=r"expected one of .*, got 'int64,fill=0'"):
        packed(tmp_path / "a.npz", tmp_path / "d", age="int64,fill=0")
    pq.write_table(pa.table({"age": [1, None]}), tmp_path / "a.parquet")
    with pytest.raises(DatasetError, match=r"a.parquet:2: column 'age' is empty; .*age=int64,fill"):
        packed(tmp_path / "a.parquet", tmp_path / "d")
    packed(tmp_path / "a.parquet", tmp_path / "d", age="int64,fill=0")
    with open_dataset(tmp_path / "d") as dataset:
        assert [int(dataset.read("age", number)) for number in (0, 1)] == [1, 0]
