"""Geometry through a daemon: boxes that are exactly at a limit, flow and normals."""

import importlib
import re
import shutil

import numpy as np
import pytest
from commands import call
from daemons import serving
from user_folders import importing_from

from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write
from stoker.protocol.errors import BuildError

pytestmark = pytest.mark.as_a_user

LIMITS = (1, 7, 14, 29, 41, 57, 58, 70, 93)

PIPELINES = """
from stoker import ops
from stoker.pipeline import pipeline

@pipeline
def at_limits(sample):
    made = {}
    for n in (1, 7, 14, 29, 41, 57, 58, 70, 93):
        image, boxes = ops.corner_crop(sample.image, ops.track_visible(sample.boxes), size=(100, n))
        made[f"n{n}"] = ops.filter_boxes(boxes, min_visible=n / 100)
    return made

@pipeline
def mirrored(sample):
    image, flow, normals = ops.random_crop(
        sample.image, sample.flow, sample.normals, size=(40, 48), padding=4, fill=114
    )
    image, flow, normals = ops.horizontal_flip(image, flow, normals, p=1.0)
    return {"image": image, "flow": flow, "normals": normals}

@pipeline
def missed(sample):
    image, normals = ops.horizontal_flip(sample.image, sample.normals)
    return {"image": image, "flow": sample.flow}

@pipeline
def placed(sample):
    image, boxes = ops.crop_around_box(sample.image, sample.boxes, margin=0.5)
    image, boxes = ops.scale_jitter(image, boxes, size=40, scale=(0.5, 1.5))
    image, boxes = ops.safe_rotate(image, boxes, degrees=30)
    image, boxes = ops.crop(image, boxes, size=(32, 36), top=-2, left=3, fill=9)
    return {"image": image, "boxes": boxes}

@pipeline
def bent(sample):
    return {"flow": ops.perspective(sample.flow)}
"""


def motion(folder):
    """Pack 3 frames with flow and normals from an .npz; flow and image hold their own place."""
    y, x = np.mgrid[:50, :60]
    place = np.stack([x, y, x + y], 2)
    image = np.stack([place + n for n in range(3)]).astype(np.uint8)
    flow = image[..., :2].astype(np.float32)
    arrays = {"image": image, "flow": flow, "normals": -image.astype(np.float32)}
    np.savez(folder / "motion.npz", **arrays)
    asked = [f"--field={name}={name}" for name in arrays]
    code, out, errors = call(
        "pack", folder / "motion.npz", folder / "motion", *asked, "--workers=1"
    )
    assert code == 0, errors
    assert re.search(r"flow +flow +float32 \(50, 60, 2\)", out + errors)
    return folder / "motion"


@pytest.fixture(scope="module")
def load(session_folder):
    """load(dataset, pipeline) -> the first batch of a Loader; all share one daemon."""
    folder = session_folder / "geometry"
    folder.mkdir()
    (folder / "geometry_pipelines.py").write_text(PIPELINES)
    fields = [schema.image(encoding="raw"), schema.boxes()]
    image = np.arange(30000, dtype=np.uint8).reshape(100, 100, 3)
    corners = np.float32([[0, 0, 100, 100]])
    write(folder / "packed", fields, [{"image": image, "boxes": {"xyxy": corners}}] * 2)
    flags = [f"--dataset=frames={folder}/packed", f"--dataset=motion={motion(folder)}"]
    names = ("at_limits", "mirrored", "missed", "bent", "placed")
    flags += [f"--pipeline={name}=geometry_pipelines:{name}" for name in names]
    with serving(folder, *flags, f"--python-path={folder}", "--workers=1") as daemon:

        def first(dataset, name):
            options = {"dataset": dataset, "pipeline": name, "batch_size": 2, "shuffle": False}
            with Loader(daemon.address, **options) as loader:
                return dict(next(iter(loader)))

        yield first
    shutil.rmtree(folder)


def test_boxes_exactly_at_a_limit_are_delivered(load):
    batch = load("frames", "at_limits")
    for n in LIMITS:
        assert [len(batch[f"n{n}"][row]["xyxy"]) for row in range(2)] == [1, 1], n


def test_components_follow_their_pixels_to_the_batch(load):
    """The image says where a pixel came from: 114 only in the image's padding, 0 in the fields'."""
    batch = {name: np.asarray(value) for name, value in load("motion", "mirrored").items()}
    image, flow, normals = batch["image"], batch["flow"], batch["normals"]
    padding = (image == 114).all(3)
    expected = image.astype(np.float32)
    assert flow.dtype == normals.dtype == np.float32
    assert np.array_equal(flow, np.where(padding[..., None], 0, expected[..., :2] * [-1, 1]))
    assert np.array_equal(normals, np.where(padding[..., None], 0, -expected * [-1, 1, 1]))
    assert np.unique(image[0, :, 1]).size > 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missed", "horizontal_flip moves output 'image', but not output 'flow'"),
        (
            "bent",
            "perspective has no rule for flow.*the components of flow follow only affine maps",
        ),
    ],
)
def test_vectors_that_nothing_turned_are_refused_by_a_loader(load, name, said):
    with pytest.raises(BuildError, match=said):
        load("motion", name)


def test_a_field_of_vectors_keeps_its_meaning_on_disk(load, session_folder):
    folder = session_folder / "geometry"
    with open_dataset(folder / "motion") as dataset:
        assert [f.meaning for f in dataset.schema.fields] == ["image", "flow", "normals"]
        as_flow = dataset.fingerprint
    plain = ["--field=image=image", "--field=flow=image", "--field=normals=normals"]
    assert call("pack", folder / "motion.npz", folder / "plain", *plain, "--workers=1")[0] == 0
    with open_dataset(folder / "plain") as dataset:
        assert dataset.fingerprint != as_flow
    code, _, errors = call("pack", folder / "motion.npz", folder / "motion", "--append", *plain)
    assert code != 0
    assert "field 'flow' is stored as flow raw" in errors
    code, _, errors = call("pack", folder / "motion.npz", folder / "other", "--field=image=flow")
    assert code != 0
    assert "flow float32 of (h, w, 2)" in errors


def test_explain_shows_the_kinds_and_what_turns_them(load, session_folder):
    folder = session_folder / "geometry"
    where = [folder / "motion", f"--python-path={folder}"]
    code, out, errors = call("explain", "geometry_pipelines:mirrored", *where)
    assert code == 0, errors
    assert "flow float32[50x60x2]" in out
    assert re.search(r"random_crop d\d on the components of v\d", out)
    assert re.search(r"d\d = d0 for v\d, with fill 0: random_crop", out)


def test_crops_and_turns_are_those_of_a_call_in_process(load, session_folder):
    """Each row of a Loader's batch is what the pipeline gives for the sample."""
    batch = load("frames", "placed")
    with importing_from(session_folder / "geometry"):
        placed = importlib.import_module("geometry_pipelines").placed
    with open_dataset(session_folder / "geometry" / "packed") as dataset:
        image = np.array(dataset.read("image", 0))
    fields = {"image": image, "boxes": {"xyxy": np.float32([[0, 0, 100, 100]])}}
    for row in range(2):
        expected = placed(fields, seed=0, epoch=0, id=row)
        assert np.array_equal(np.asarray(batch["image"])[row], expected["image"])
        assert np.array_equal(batch["boxes"][row]["xyxy"], expected["boxes"]["xyxy"])
        assert len(expected["boxes"]["xyxy"]) == 1
