"""Rows of mixtures: samples of several datasets follow each other on one thread."""

import io
import itertools

import numpy as np
import pytest
from PIL import Image

from stoker import ops
from stoker.dataset import schema
from stoker.dataset.packing.build import write_dataset
from stoker.pipeline import pipeline
from stoker.protocol.spec import OrderSpec
from stoker.server.rows.reference import reference_mix


@pipeline
def corner(sample):
    return {"image": ops.center_crop(sample.image, size=4)}


@pytest.fixture
def packed(tmp_path):
    """Make a dataset of square PNG images, each of one color."""

    def make(name, colors, side):
        rows = []
        for color in colors:
            out = io.BytesIO()
            Image.fromarray(np.full((side, side, 3), color, np.uint8)).save(out, "PNG")
            rows.append({"image": out.getvalue()})
        write_dataset(tmp_path / name, schema.Schema((schema.image(encoding="png"),)), rows)
        return tmp_path / name

    return make


@pytest.mark.parametrize("sides", [(8, 8), (8, 24), (24, 8)])
def test_samples_of_the_same_number_in_their_datasets_are_not_mixed_up(packed, sides):
    """Two datasets have different samples under one id, also if their sizes are equal."""
    colors = ([10, 11, 12, 13], [90, 91, 92, 93])
    parts = [
        (packed(name, own, side), corner.graph(), 1.0)
        for name, own, side in zip("ab", colors, sides, strict=True)
    ]
    fields = {"batch_size": 4, "order": OrderSpec(shuffle=False)}
    shown = []
    for _, batch in reference_mix(parts, **fields):
        for sample_id, image in zip(batch["index"].tolist(), batch["image"], strict=True):
            assert np.unique(image).tolist() == [[*colors[0], *colors[1]][sample_id]]
            shown.append(sample_id)
    assert any(first + 4 == then for first, then in itertools.pairwise(shown))
