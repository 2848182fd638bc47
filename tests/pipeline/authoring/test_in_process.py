"""Pipelines without a daemon: decisions of an op, frames of a sample, a torch Dataset."""

from __future__ import annotations

import importlib
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from torch.utils.data import DataLoader, Dataset

from stoker import ops
from stoker.ops import make
from stoker.pipeline import one_of, pipeline
from stoker.pipeline.plain.decisions import decide
from stoker.protocol.errors import BuildError, UsageError
from stoker.rng.row import Row


@pipeline
def train(sample):
    image, mask = ops.random_crop(sample.image, sample.mask, size=48)
    image, mask = one_of(image, mask, choices=[ops.HorizontalFlip(1.0), ops.Rot90(1, 1.0), None])
    return {"image": ops.color_jitter(image, brightness=0.4), "mask": mask, "label": sample.label}


class Photographs(Dataset):
    """A map-style dataset as torch users write them; the sample's id is its index."""

    def __init__(self, image, mask, transform, epoch):
        self.image, self.mask, self.transform, self.epoch = image, mask, transform, epoch

    def __len__(self):
        return 12

    def __getitem__(self, index):
        fields = {"image": self.image, "mask": self.mask, "label": np.int64(index)}
        return self.transform(fields, seed=5, epoch=self.epoch, id=index)


@pytest.fixture(scope="module")
def fields(photo):
    image = photo[0][:90, :120].copy()
    return {"image": image, "mask": image[..., 0].copy(), "label": np.int64(1)}


@pytest.mark.as_a_user
@pytest.mark.slow
def test_torch_loader_with_workers_gives_the_same_bytes(fields):
    """Workers are spawned: the pipeline travels as data, and no worker's seed has a part in it."""

    def batches(workers, epoch=2):
        dataset = Photographs(fields["image"], fields["mask"], train, epoch)
        context = "spawn" if workers else None
        loader = DataLoader(
            dataset, batch_size=4, num_workers=workers, multiprocessing_context=context
        )
        return [
            {name: value.numpy().tobytes() for name, value in batch.items()} for batch in loader
        ]

    alone = batches(0)
    assert len(alone) == 3
    assert batches(2) == alone
    assert batches(0, epoch=3) != alone


def test_pipelines_travel_as_data(fields):
    @pipeline
    def local(sample):
        return {"image": ops.random_crop(sample.image, size=32)}

    arrived = pickle.loads(pickle.dumps(local))
    assert (arrived.pipeline_id, arrived.name) == (local.pipeline_id, "local")
    assert np.array_equal(arrived(fields, id=3)["image"], local(fields, id=3)["image"])
    with pytest.raises(BuildError, match=r"local: this pipeline came as data"):
        pipeline(lambda sample: arrived(sample) | {"label": sample.label}).graph()


OWN = """
from dataclasses import dataclass
from typing import ClassVar

from stoker import ops
from stoker.ops import Kernel, Op
from stoker.pipeline import pipeline
from stoker.jit import kernel


@kernel
def add(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        for x in range(src.shape[1]):
            dst[y, x] = src[y, x] + 1


def plain_add(src, dst, params, record, scratch):
    dst[...] = src + 1


@dataclass(frozen=True)
class AddOne(Op):
    name: ClassVar[str] = "add_one"
    kernels: ClassVar = {"mask": Kernel(add, plain_add)}


def double(value):
    return value * 2


@pipeline
def own(sample):
    mask = sample.mask
    if sample.label > 0:
        mask = AddOne()(mask)
    return {"mask": ops.python(double, mask, randomness="none")}
"""


def test_code_of_the_authors_is_found_where_a_pipeline_is_sent(tmp_path, monkeypatch):
    """The other process has never imported the module; the pipeline says which it needs."""
    (tmp_path / "own_ops_that_travel.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("own_ops_that_travel")
    code = (
        "import pickle, sys, numpy as np; made = pickle.load(sys.stdin.buffer); "
        "out = made({'mask': np.full((2, 3), 5, np.uint8), 'label': 1}); "
        "print(made.name, out['mask'].tolist())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(module.own),
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert result.stdout.decode() == "own [[12, 12, 12], [12, 12, 12]]\n"


def test_one_decision_for_a_list_of_frames(fields):
    image = fields["image"]
    frames = [image, 255 - image, image[::-1].copy()]
    masks = [frame[..., 0].copy() for frame in frames]
    video = {"image": frames, "mask": masks, "label": 3}
    out = train(video, seed=1, id=9)
    assert [len(out[name]) for name in ("image", "mask", "label")] == [3, 3, 3]
    for index, frame in enumerate(frames):
        alone = train({"image": frame, "mask": masks[index], "label": 3}, seed=1, id=9)
        for name, value in alone.items():
            assert np.array_equal(out[name][index], value)
    assert np.array_equal(out["mask"][1], 255 - out["mask"][0])  # the same crop of each
    assert len(train(video | {"image": frames[:1], "mask": masks[:1]}, id=9)["image"]) == 1


@pytest.mark.parametrize(
    "op",
    [
        ops.RandomResizedCrop(32),
        ops.ColorJitter(0.2, 0.3),
        ops.Erase(p=0.5),
        ops.OneOf((1, 2)),
        ops.Perspective(p=1.0),
    ],
    ids=lambda op: op.name,
)
def test_sample_of_an_op_is_what_a_pipeline_decides(op, photo):
    height, width = photo[0].shape[:2]
    where = {"seed": 2**64 - 1, "epoch": 3, "id": 10**6, "visit": 1, "view": 2}

    @pipeline
    def uses(sample):
        image = sample.image
        if op.kernels:
            image = op(image, stream="s")
        else:
            image = one_of(image, choices=[None, ops.Invert()], weights=[1, 2], stream="s")
        return {"image": ops.resize(image, size=(8, 8))}

    plan = uses.plan_for({"image": photo[0]})
    (drawn,) = (e["record"] for e in decide(plan, Row(**where), {}) if e["stream"] == "s")
    assert op.sample(height, width, **where, stream="s") == drawn
    assert op.sample(height, width, **where) != drawn or op.name == "one_of"


def test_sample_of_ops_that_draw_nothing(photo):
    height, width = photo[0].shape[:2]
    assert ops.Resize((20, 20)).sample(height, width) == {}
    assert make("center_crop", {"size": 100}).sample(height, width) == ops.CenterCrop(100).sample(
        height, width, seed=5, id=8
    )
    with pytest.raises(UsageError, match=r"stream name 'stoker/x': names that begin with"):
        ops.HorizontalFlip().sample(1, 1, stream="stoker/x")
    with pytest.raises(UsageError, match="seed"):
        ops.HorizontalFlip().sample(1, 1, seed=-1)


def test_a_pipeline_says_what_it_is():
    @pipeline
    def train(sample):
        return {"image": sample.image}

    assert re.fullmatch(r"<pipeline 'train' from .*test_in_process\.py:\d+>", repr(train))
