"""Samples without any label or box, from each kind of source, up to the batch."""

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skimage.data
from PIL import Image

from stoker import ops
from stoker.dataset import open_dataset, schema, write
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.sources.formats.object_reader import load_object
from stoker.pipeline import outputs, pipeline
from stoker.protocol.errors import DatasetError, UsageError
from stoker.protocol.ragged import unpack_items
from stoker.server.rows.reference import make_spec, reference_batches

PHOTO = skimage.data.coffee()[:40, :60]
MODULE = """
import numpy as np

class Rows:
    classes = ["cat", "dog"]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        return {"image": np.zeros((8, 9, 3), np.uint8), **self.rows[index]}

class Boxes(Rows):
    rows = [
        {"boxes": {"xyxy": [], "label": [], "score": []}},
        {"boxes": {"xyxy": [[0, 0, 1, 1]], "label": [1], "score": np.ones(1, np.float16)}},
    ]

class Named(Rows):
    rows = [
        {"boxes": {"xyxy": [], "label": []}},
        {"boxes": {"xyxy": [[0, 0, 1, 1]], "label": ["dog"]}},
    ]

class Strange(Rows):
    rows = [*Named.rows, {"boxes": {"xyxy": [[0, 0, 1, 1]], "label": ["dgo"]}}]

class Unnamed(Named):
    classes = None

class NoBoxes(Rows):
    rows = [{"boxes": {"xyxy": [], "label": []}}] * 2

class NoScores(Rows):
    rows = [{"boxes": {"xyxy": [], "score": []}}] * 2

class Labels(Rows):
    rows = [{"labels": []}, {"labels": [1, 2]}, {"labels": [3]}]

class NoLabels(Rows):
    rows = [{"labels": []}] * 2

class Texts(Rows):
    rows = [{"labels": []}, {"labels": ["cat", "dog"]}]
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_lists.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("my_lists", None)
    load_object.cache_clear()


def packed(source, dest, **options):
    return pack(source, dest, Options(workers=1, **options))


def items(dest, name="boxes"):
    """The dtype of each part, and its numbers by sample."""
    with open_dataset(dest) as dataset:
        fields = dataset.schema.field(name).items.fields
        rows = [unpack_items(fields, dataset.read(name, n)) for n in range(len(dataset))]
    return {part.name: (part.dtype, [row[part.name].tolist() for row in rows]) for part in fields}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Boxes", ("int64", [[], [1]])),
        ("Named", ("int64", [[], [1]])),
        ("NoBoxes", ("int64", [[], []])),
    ],
)
def test_an_empty_first_row_does_not_decide_the_dtype(module, name, label):
    packed(f"my_lists:{name}", module / "d")
    found = items(module / "d")
    assert found["label"] == label
    if name == "Boxes":
        assert found["score"] == ("float16", [[], [1.0]])
    with open_dataset(module / "d") as dataset:
        named = ("cat", "dog") if name == "Named" else None
        assert dataset.schema.field("boxes").classes == named


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Strange", r"Strange\[2\]: boxes: expected one of cat, dog, got 'dgo'"),
        ("Unnamed", r"Unnamed\[0\]: 'boxes': 'label' is text: give the object its classes"),
        ("NoScores", r"'boxes': 'score' is empty, .* np.zeros\(0, np.float32\), or declare"),
        ("NoLabels", r"NoLabels\[0\]: 'labels' is empty, .*--field labels=int64\[\?\]"),
        ("Texts", r"Texts\[0\]: 'labels' is a list of texts: .*--field labels=int64\[\?\]"),
        ("Labels", r"Labels\[0\]: field 'labels': expected shape \(2,\), got \(0,\); .*"
                   r"--field labels=int64\[\?\]"),
    ],
)  # fmt: skip
def test_what_is_not_known_names_the_remedy(module, name, message):
    with pytest.raises((UsageError, DatasetError), match=message):
        packed(f"my_lists:{name}", module / "d")


@pytest.mark.parametrize("name", ["Labels", "NoLabels"])
def test_lists_of_any_length(module, name):
    packed(f"my_lists:{name}", module / "d", fields={"labels": "int64[?]"})
    with open_dataset(module / "d") as dataset:
        found = [dataset.read("labels", number).tolist() for number in range(len(dataset))]
    assert found == ([[], [1, 2], [3]] if name == "Labels" else [[], []])


def coco(folder, *annotations):
    for name in "ab":
        Image.fromarray(PHOTO).save(folder / f"{name}.png")
    images = [
        {"id": n, "file_name": f"{name}.png", "height": 40, "width": 60}
        for n, name in enumerate("ab")
    ]
    categories = [{"id": 5, "name": "dog", "keypoints": ["nose"]}]
    made = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(made))
    return folder / "instances.json"


def test_coco_images_without_annotations(tmp_path):
    packed(coco(tmp_path), tmp_path / "d", images=tmp_path, masks="semantic")
    assert items(tmp_path / "d")["label"] == ("int64", [[], []])
    assert items(tmp_path / "d", "keypoints")["keypoint"] == ("int64", [[], []])
    with open_dataset(tmp_path / "d") as dataset:
        assert not dataset.decode("mask", 0, np.empty(2**16, np.uint8)).any()


@pytest.mark.parametrize("empty", [[], None])
def test_coco_objects_without_keypoints_and_outlines(tmp_path, empty):
    one = {"id": 1, "image_id": 0, "category_id": 5, "bbox": [0, 0, 2, 2], "area": 4}
    path = coco(tmp_path, {**one, "keypoints": empty, "segmentation": empty})
    report = packed(path, tmp_path / "d", images=tmp_path, masks="semantic")
    assert items(tmp_path / "d", "keypoints")["xy"] == ("float32", [[], []])
    notes = [(note.what, note.examples) for note in report.manifest.statistics.notes]
    assert notes == [
        ("objects without an outline, which the mask does not show (1 in all)", ("a.png",))
    ]


def test_yolo_files_without_a_line(tmp_path):
    for folder in ("images", "labels"):
        (tmp_path / "y" / folder / "train").mkdir(parents=True)
    for name in "ab":
        Image.fromarray(PHOTO).save(tmp_path / f"y/images/train/{name}.png")
    (tmp_path / "y/labels/train/a.txt").write_text("\n")
    (tmp_path / "y/data.yaml").write_text("train: images/train\nnames: [dog]\n")
    packed(tmp_path / "y", tmp_path / "d", masks="semantic")
    assert items(tmp_path / "d")["label"] == ("int64", [[], []])


@pytest.mark.parametrize("lists", [[[], [1, 2]], [[], []]])
def test_lists_of_a_table(tmp_path, lists):
    table = pa.table({"labels": pa.array(lists, pa.list_(pa.int64()))})
    pq.write_table(table, tmp_path / "t.parquet")
    packed(tmp_path / "t.parquet", tmp_path / "d")
    with open_dataset(tmp_path / "d") as dataset:
        field = dataset.schema.field("labels")
        assert (field.dtype, field.shape) == ("int64", (None,))
        assert [dataset.read("labels", number).tolist() for number in (0, 1)] == lists


@pytest.mark.parametrize("some", [True, False])
def test_batches_of_empty_lists(tmp_path, some):
    @pipeline
    def train(sample):
        image, boxes = ops.random_crop(sample.image, sample.boxes, size=(6, 6))
        image, boxes = ops.horizontal_flip(image, boxes)
        return {
            "image": image,
            "boxes": boxes,
            "many": sample.boxes.count > 0,
            "ragged": outputs.ragged(sample.labels),
            "padded": outputs.pad(sample.labels, fill=-1),
        }

    fields = [
        schema.image(),
        schema.boxes(fields={"label": "int64"}),
        schema.array("labels", "int64", (None,)),
    ]
    empty = {"image": PHOTO, "boxes": {"xyxy": [], "label": []}, "labels": []}
    full = {"image": PHOTO, "boxes": {"xyxy": [[0, 0, 60, 40]], "label": [1]}, "labels": [7, 8]}
    write(tmp_path / "d", fields, [empty, full if some else empty])
    spec = make_spec(tmp_path / "d", train.graph(), batch_size=2)
    ((_, batch),) = reference_batches(tmp_path / "d", train.graph(), spec)
    order = np.argsort(batch["index"])
    assert batch["many"][order].tolist() == [False, some]
    assert [batch["boxes"][place]["label"].tolist() for place in order] == [[], [1] * some]
    assert [batch["ragged"][place].tolist() for place in order] == [[], [7, 8] * some]
    padded = batch["padded"][order].tolist()
    assert padded == ([[-1, -1], [7, 8]] if some else [[-1], [-1]])


def test_an_empty_list_of_labels_in_process():
    flip = pipeline(lambda sample: {"boxes": ops.horizontal_flip(sample.image, sample.boxes)[1]})
    made = flip({"image": PHOTO, "boxes": {"xyxy": [], "label": []}})["boxes"]
    assert (made["label"].dtype, made["xyxy"].shape) == (np.int64, (0, 4))
