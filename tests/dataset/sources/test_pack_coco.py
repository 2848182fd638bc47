"""Packing COCO: what pycocotools reads from the same file, and what is wrong with annotations."""

import json

import numpy as np
import pytest
from commands import call
from files import items_of
from pycocotools import mask as reference
from pycocotools.coco import COCO

from stoker import ops
from stoker.dataset import open_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.sources.common.box_clipping import LEFT_OUT, MOVED, POINTS_LEFT_OUT
from stoker.pipeline import outputs, pipeline
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, DatasetError, UsageError
from stoker.server.rows.field_states import field_states

ONE = Options(workers=1)
POINTS = ["nose", "tail"]
pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"  # in pycocotools
)


def code_of(mask, compressed):
    """A run-length code of a mask, as COCO writes crowds."""
    height, width = mask.shape
    if compressed:
        code = reference.encode(np.asfortranarray(mask))
        return {"size": [height, width], "counts": code["counts"].decode()}
    flat = mask.T.reshape(-1).astype(int)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flat]))).tolist()
    return {"size": [height, width], "counts": np.diff([0, *edges, flat.size]).tolist()}


@pytest.fixture
def described(photographs):
    """Annotations of six photographs, except the third; ids are neither dense nor sorted."""
    rng = np.random.default_rng(3)
    images, annotations = [], []
    for number, (name, pixels) in enumerate(photographs.items()):
        height, width = pixels.shape[:2]
        image = {"id": 900 - 7 * number, "file_name": f"{name}.jpg", "height": height}
        images.append({**image, "width": width, "license": 3})
        for _ in range(0 if number == 2 else 4):
            left, top = rng.uniform(0, width / 2), rng.uniform(0, height / 2)
            box = [left, top, rng.uniform(5, width / 2), rng.uniform(5, height / 2)]
            corners = [left, top, left + box[2], top, left + box[2] / 2, top + box[3]]
            mask = rng.integers(0, 2, (height, width), np.uint8)
            shape = len(annotations) % 3
            annotation = {
                "id": 5000 - 11 * len(annotations),
                "image_id": image["id"],
                "category_id": [3, 90, 17][len(annotations) % 3],
                "bbox": [round(side, 2) for side in box],
                "area": round(box[2] * box[3] / 2, 3),
                "iscrowd": int(shape > 0),
                "segmentation": [corners] if shape == 0 else code_of(mask, shape == 1),
            }
            if annotation["category_id"] == 17:
                annotation["keypoints"] = [round(left), round(top), 2, 0, 0, 0]
                annotation["num_keypoints"] = 1
            annotations.append(annotation)
    categories = [{"id": 90, "name": "toothbrush"}, {"id": 3, "name": "car"}]
    categories.append({"id": 17, "name": "cat", "keypoints": POINTS, "skeleton": [[1, 2]]})
    return {"info": {}, "images": images, "annotations": annotations, "categories": categories}


@pytest.fixture
def coco(tmp_path, photographs, to_jpeg, described):
    """write(change) -> the JSON file next to images/, as in COCO's archives."""
    (tmp_path / "val2017").mkdir()
    (tmp_path / "annotations").mkdir()
    for name, pixels in photographs.items():
        (tmp_path / "val2017" / f"{name}.jpg").write_bytes(to_jpeg(pixels))

    def write(change=lambda described: None):
        change(described)
        path = tmp_path / "annotations" / "instances_val2017.json"
        path.write_text(json.dumps(described))
        return path

    return write


def test_boxes_are_those_of_pycocotools(tmp_path, coco):
    path = coco()
    report = pack(path, tmp_path / "d", ONE)
    assert (report.kind, report.manifest.rows) == ("coco", 6)
    index = COCO(path)
    with open_dataset(tmp_path / "d") as dataset:
        boxes = dataset.schema.field("boxes")
        assert boxes.classes == ("car", "cat", "toothbrush")
        assert boxes.class_ids == (3, 17, 90)
        counts = [len(index.getAnnIds(catIds=[number])) for number in boxes.class_ids]
        assert report.manifest.statistics.fields["boxes"].per_class == tuple(counts)
        for number, image_id in enumerate(sorted(index.getImgIds())):
            image = index.loadImgs([image_id])[0]
            assert dataset.read("image_id", number) == image_id
            assert dataset.source(number) == image["file_name"]
            expected = index.loadAnns(index.getAnnIds(imgIds=[image_id]))
            found = items_of(dataset, "boxes", number)
            assert found["annotation"].tolist() == [one["id"] for one in expected]
            ids = np.array(boxes.class_ids)[found["label"]].tolist()
            assert ids == [one["category_id"] for one in expected]
            assert found["crowd"].tolist() == [bool(one["iscrowd"]) for one in expected]
            given = np.array([one["bbox"] for one in expected]).reshape(-1, 4)
            corners = np.hstack([given[:, :2], given[:, :2] + given[:, 2:]])
            assert np.array_equal(found["xyxy"], corners.astype(np.float32))
            areas = np.array([one["area"] for one in expected], np.float32)
            assert np.array_equal(found["area"], areas)


def test_keypoints_that_were_labeled_are_kept(tmp_path, coco):
    path = coco()
    pack(path, tmp_path / "d", ONE)
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.schema.field("keypoints").classes == tuple(POINTS)
        total = 0
        by_id = {one["id"]: one for one in json.loads(path.read_text())["annotations"]}
        for number in range(6):
            found = items_of(dataset, "keypoints", number)
            for at, point, visibility, annotation in zip(
                found["xy"],
                found["keypoint"],
                found["visibility"],
                found["annotation"],
                strict=True,
            ):
                expected = by_id[annotation]["keypoints"][3 * point : 3 * point + 3]
                assert [*(at - 0.5), visibility] == expected  # pixel indices -> edge coordinates
                total += 1
        assert total == sum("keypoints" in one for one in by_id.values())


def flipped(sample):
    image, points = ops.horizontal_flip(sample.image, sample.keypoints)
    return {"image": outputs.as_list(image), "points": points}


def flipped_and_swapped(sample):
    image, points = ops.horizontal_flip(sample.image, sample.keypoints)
    points = ops.swap_keypoints(points, pairs="names", where_flipped=True)
    return {"image": outputs.as_list(image), "points": points}


def test_its_names_say_what_a_mirror_swaps(tmp_path, coco, described):
    described["categories"][-1]["keypoints"] = ["right_ear", "left_ear"]
    pack(coco(), tmp_path / "d", ONE)
    with open_dataset(tmp_path / "d") as dataset:
        states = field_states(dataset)
        plan = bind(pipeline(flipped_and_swapped).graph(), states)
        assert [one.op.pairs for one in plan.decisions if one.op.name == "swap_keypoints"] == [
            ((0, 1),)
        ]
        with pytest.raises(BuildError, match="'right_ear' would be where 'left_ear' is"):
            bind(pipeline(flipped).graph(), states)


def test_all_keypoints_of_a_skeleton_can_be_kept(tmp_path, coco):
    path = coco()
    pack(path, tmp_path / "d", Options(workers=1, all_keypoints=True))
    by_id = {one["id"]: one for one in json.loads(path.read_text())["annotations"]}
    with open_dataset(tmp_path / "d") as dataset:
        found = [items_of(dataset, "keypoints", number) for number in range(6)]
    pointed = [one for one in by_id.values() if "keypoints" in one]
    assert sum(len(row["xy"]) for row in found) == len(POINTS) * len(pointed)
    for row in found:
        unlabeled = row["visibility"] == 0
        assert row["xy"][unlabeled].tolist() == [[0.5, 0.5]] * unlabeled.sum()
        for annotation in set(row["annotation"].tolist()):
            mine = row["annotation"] == annotation
            assert row["keypoint"][mine].tolist() == list(range(len(POINTS)))
            given = np.array(by_id[annotation]["keypoints"]).reshape(-1, 3)
            assert row["visibility"][mine].tolist() == given[:, 2].tolist()
    assert any((row["visibility"] == 0).any() for row in found)
    with pytest.raises(UsageError, match="--all-keypoints does not apply to"):
        pack(path.parent, tmp_path / "e", Options(kind="folder", all_keypoints=True, workers=1))


def test_semantic_masks_are_those_of_pycocotools(tmp_path, coco):
    path = coco()
    pack(path, tmp_path / "d", Options(workers=1, masks="semantic"))
    index, out = COCO(path), np.empty(10**6, np.uint8)
    with open_dataset(tmp_path / "d") as dataset:
        field = dataset.schema.field("mask")
        assert field.classes == ("background", "car", "cat", "toothbrush")
        assert field.class_ids == (-1, 3, 17, 90)
        for number, image_id in enumerate(sorted(index.getImgIds())):
            objects = index.loadAnns(index.getAnnIds(imgIds=[image_id]))
            expected = np.zeros(dataset.size("image", number), np.uint8)
            for one in sorted(objects, key=lambda one: -one["area"]):
                expected[index.annToMask(one) == 1] = field.class_ids.index(one["category_id"])
            assert np.array_equal(dataset.decode("mask", number, out), expected)


def test_instance_masks_hold_the_number_of_the_box(tmp_path, coco):
    path = coco()
    pack(path, tmp_path / "d", Options(workers=1, masks="instance"))
    index, out = COCO(path), np.empty(10**6, np.uint8)
    with open_dataset(tmp_path / "d") as dataset:
        for number in range(6):
            boxes, mask = items_of(dataset, "boxes", number), dataset.decode("mask", number, out)
            assert boxes["instance"].tolist() == list(range(1, len(boxes["xyxy"]) + 1))
            assert set(np.unique(mask)) <= {0, *boxes["instance"]}
            if len(boxes["xyxy"]):  # the smallest object lies over all others
                smallest = int(np.argmin(boxes["area"]))
                one = index.loadAnns([int(boxes["annotation"][smallest])])[0]
                painted = mask[index.annToMask(one) == 1]
                assert np.all(painted == boxes["instance"][smallest])


def test_a_folder_of_roboflow(tmp_path, coco):
    path = coco()
    path.rename(tmp_path / "val2017" / "_annotations.coco.json")
    report = pack(tmp_path / "val2017", tmp_path / "d", ONE)
    assert (report.kind, report.manifest.rows) == ("coco", 6)


def test_boxes_that_reach_out_by_rounding_are_moved(tmp_path, coco):
    def reach_out(described):
        described["images"].sort(key=lambda image: image["id"])
        image = described["images"][0]
        one = next(a for a in described["annotations"] if a["image_id"] == image["id"])
        one["bbox"] = [-0.4, 3, image["width"] + 0.9, 5]

    report = pack(coco(reach_out), tmp_path / "d", ONE)
    notes = {note.what: (note.count, note.examples) for note in report.manifest.statistics.notes}
    assert notes[f"{MOVED} (1 in all)"] == (1, ("flower.jpg",))
    with open_dataset(tmp_path / "d") as dataset:
        width = dataset.size("image", 0)[1]
        assert items_of(dataset, "boxes", 0)["xyxy"][0].tolist() == [0, 3, width, 8]


def spoil(described):
    """Make one thing of each sort wrong, each with an image of its own where it has one."""
    by_image = {}
    for one in described["annotations"]:
        by_image.setdefault(one["image_id"], []).append(one)
    images = described["images"]
    by_image[images[0]["id"]][0]["bbox"] = [10, 10, 5000, 5]
    by_image[images[0]["id"]][1]["bbox"] = [10, 10, -3, 5]
    by_image[images[1]["id"]][0]["category_id"] = 4
    images[2]["height"] += 1
    images[3]["file_name"] = "nowhere.jpg"
    pointed = next(one for one in by_image[images[4]["id"]] if "keypoints" in one)
    pointed["keypoints"][0] = -9
    shaped = next(one for one in by_image[images[5]["id"]] if one["iscrowd"])
    shaped["segmentation"] = {"size": [1, 1], "counts": [1]}
    annotations = described["annotations"]
    annotations.append({**annotations[0], "id": 77, "image_id": 4})
    annotations.append(annotations[-2])


def test_what_is_wrong_with_annotations_is_named(tmp_path, coco):
    with pytest.raises(DatasetError) as caught:
        pack(coco(spoil), tmp_path / "d", Options(workers=1, masks="semantic"))
    message = str(caught.value)
    for expected in (
        "8 of 8 samples of",
        "astronaut.jpg: 1 boxes have a negative width or height, or one that is not finite: "
        "annotation 4989: [10.0, 10.0, -3.0, 5.0] (left, top, width, height); repair them\n",
        "chelsea.jpg: annotation 4956: there is no category with the id 4",
        "coffee.jpg: it has 164x178 pixels (height x width, upright), but its annotations are for "
        "165x178; they must agree",
        "nowhere.jpg: it cannot be read: No such file or directory",
        ": its keypoint 0 at (-9.0,",
        "flower.jpg: a run-length code is for 1x1 pixels",
        "instances_val2017.json, annotation 77: there is no image with the id 4",
        "an earlier annotation has the same id; remove one",
    ):
        assert expected in message


def test_boxes_are_clipped_on_request_and_those_left_out_are_counted(tmp_path, coco):
    def reach_out(described):
        for image in described["images"][:2]:
            ones = [one for one in described["annotations"] if one["image_id"] == image["id"]]
            ones[0]["bbox"] = [10, 10, 5000, 5]
            ones[1]["bbox"] = [5000, 10, 10, 10]
        ones[2]["bbox"] = [-30, 10, 10, 10]
        pointed = next(one for one in described["annotations"] if "keypoints" in one)
        pointed["keypoints"][:2] = [-9, 3]

    source = coco(reach_out)
    code, _, errors = call("pack", source, tmp_path / "d", "--workers=1")
    assert code != 0
    assert (
        "astronaut.jpg: 2 boxes are outside of its 150x200 pixels (height x width): annotation "
        "5000: [10.0, 10.0, 5000.0, 5.0], annotation 4989: [5000.0, 10.0, 10.0, 10.0]; repair "
        "them, or pass --clip to clip them"
    ) in errors
    code, out, errors = call("pack", source, tmp_path / "d", "--workers=1", "--clip", COLUMNS="300")
    assert code == 0, errors
    for note in (
        f"{MOVED} (2 in all): 2 files, such as",
        f"{LEFT_OUT} (3 in all): 2 files, such as",
        f"{POINTS_LEFT_OUT} (1 in all): 1 file, such as astronaut.jpg",
    ):
        assert note in out + errors
    with open_dataset(tmp_path / "d") as dataset:
        assert [len(items_of(dataset, "boxes", number)["xyxy"]) for number in (4, 5)] == [2, 3]
        assert items_of(dataset, "boxes", 5)["xyxy"][0].tolist() == [10, 10, 200, 15]


def test_changes_to_a_bad_sample_are_not_counted(tmp_path, coco):
    def spoiled(described):
        image = described["images"][0]
        one = next(a for a in described["annotations"] if a["image_id"] == image["id"])
        one["bbox"] = [5000, 10, 10, 10]
        pointed = next(one for one in described["annotations"] if "keypoints" in one)
        pointed["keypoints"] = [1, 2]

    options = Options(workers=1, clip=True, skip_bad=True)
    notes = pack(coco(spoiled), tmp_path / "d", options).manifest.statistics.notes
    assert not any(LEFT_OUT in note.what for note in notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("categories"), "expected images and categories, got none of one of them"),
        (lambda d: d["annotations"][3].update(bbox=[1, 2, 3]), r"`\$.annotations\[3\].bbox`"),
        (lambda d: d.update(images=[]), "expected images and categories, got none of one of them"),
        (lambda d: d["images"].append(d["images"][2]), "image id 886 occurs twice; remove one"),
        (lambda d: d["categories"].append(d["categories"][0]), "category id 90 occurs twice"),
        (
            lambda d: [image.update(file_name=f"{image['id']}.x") for image in d["images"]],
            r"none of \d+ images, such as \d+.x, is in .*; name the folder of the images",
        ),
    ],
)
def test_files_that_cannot_be(tmp_path, coco, change, message):
    with pytest.raises(UsageError, match=message):
        pack(coco(change), tmp_path / "d", ONE)
