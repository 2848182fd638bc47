"""Geometry through a daemon: boxes that are exactly at a limit."""

import shutil

import numpy as np
import pytest
from daemons import serving

from stoker.client import Loader
from stoker.dataset import schema, write

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
"""


@pytest.fixture(scope="module")
def load(session_folder):
    """load(pipeline) -> the first batch of a Loader of two samples; all share one daemon."""
    folder = session_folder / "geometry"
    folder.mkdir()
    (folder / "geometry_pipelines.py").write_text(PIPELINES)
    fields = [schema.image(encoding="raw"), schema.boxes()]
    image = np.arange(30000, dtype=np.uint8).reshape(100, 100, 3)
    corners = np.float32([[0, 0, 100, 100]])
    write(folder / "packed", fields, [{"image": image, "boxes": {"xyxy": corners}}] * 2)
    flags = [f"--dataset=frames={folder}/packed", f"--python-path={folder}", "--workers=1"]
    flags += ["--pipeline=at_limits=geometry_pipelines:at_limits"]
    with serving(folder, *flags) as daemon:

        def first(name):
            with Loader(daemon.address, pipeline=name, batch_size=2, shuffle=False) as loader:
                return dict(next(iter(loader)))

        yield first
    shutil.rmtree(folder)


def test_boxes_exactly_at_a_limit_are_delivered(load):
    batch = load("at_limits")
    for n in LIMITS:
        assert [len(batch[f"n{n}"][row]["xyxy"]) for row in range(2)] == [1, 1], n
