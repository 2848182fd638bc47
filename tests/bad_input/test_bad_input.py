"""Bad input, end to end: one clear error that names what, where and what to change.

Each case goes the way a user goes: the command line, or a Loader. Nothing hangs (every wait has a
deadline), nothing shows a traceback of a library, nothing is left behind (the leak fixture).
"""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stoker import ops
from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write
from stoker.pipeline import pipeline
from stoker.protocol.errors import (
    BuildError,
    DatasetError,
    ResourceError,
    SampleError,
    StreamStoppedError,
    UnknownNameError,
    UsageError,
    VersionError,
)

pytestmark = pytest.mark.usefixtures("forked_private_daemons")

THIS = Path(__file__).name


@pipeline
def plain(sample):
    return {"image": ops.resize(sample.image, size=(32, 32)), "label": sample.label}


@pytest.fixture
def packed(stoker, photos, tmp_path):
    dest = tmp_path / "packed"
    done = stoker("pack", photos, dest)
    assert done.code == 0, done.err
    return dest


def first(where: object, what: object, **options: object):
    """Take the first batch of a dataset, through a private daemon, or of the one at an address."""
    options = {"batch_size": 2, "device": "numpy", "shuffle": False, **options}
    with Loader(str(where), pipeline=what, **options) as loader:
        return next(iter(loader))


def line_of(text: str) -> int:
    """The line of this file that holds a text."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


# ------------------------------------------------------------------ files


def test_a_source_that_does_not_exist(stoker, tmp_path):
    done = stoker("pack", tmp_path / "nowhere", tmp_path / "out")
    assert done.code != 0
    assert "nowhere" in done.err
    assert not (tmp_path / "out").exists()


def test_an_unreadable_and_a_truncated_picture_are_both_named(stoker, photos, tmp_path):
    (photos / "even" / "9.jpg").write_bytes(b"this is not a picture")
    damaged = photos / "odd" / "1.jpg"
    damaged.write_bytes(damaged.read_bytes()[:900])
    done = stoker("pack", photos, tmp_path / "out")
    assert done.code == 1
    assert re.sub(r"\s+", "", "even/9.jpg") in re.sub(r"\s+", "", done.err)
    assert "odd/1.jpg" in re.sub(r"\s+", "", done.err)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_image_and_mask_of_different_sizes(stoker, pairs, tmp_path):
    mask = Image.open(pairs / "masks" / "3.png")
    mask.resize((50, 40)).save(pairs / "masks" / "3.png")
    done = stoker("pack", pairs, tmp_path / "out")
    assert done.code == 1
    err = re.sub(r"\s+", " ", done.err)
    for part in ("3.png", "3.jpg", "50", "120"):
        assert part in err


def test_a_picture_damaged_after_packing(packed, stoker, tmp_path, monkeypatch):
    """The stored bytes of one sample are overwritten: the error names dataset, id and file."""
    with open_dataset(packed) as dataset:
        file, offset = dataset.locate("image", 1)
        size = len(dataset.read("image", 1))
    with (packed / file.name).open("r+b") as data:
        data.seek(offset + size // 3)
        data.write(bytes(size - size // 3))
    with pytest.raises(
        SampleError, match=rf"dataset {packed}, id 1 \(.*stored bytes no longer have the check"
    ) as caught:
        first(packed, plain)
    assert caught.value.details["id"] == 1
    assert caught.value.details["file"] == file.name
    monkeypatch.setenv("STOKER_BAD_SAMPLES_FOLDER", str(tmp_path / "bad"))
    masked = first(packed, plain, on_error="mask")
    assert masked.valid.tolist() == [True, False]
    assert masked.index.tolist() == [0, -1]
    assert masked.requested.tolist() == [0, 1]
    replaced = first(packed, plain, on_error="replace")
    assert replaced.valid.all()
    assert replaced.requested.tolist() == [0, 1]
    assert replaced.index[1] not in (1, -1)
    again = first(packed, plain, on_error="replace", workers=1)
    assert (again.image == replaced.image).all()
    (quarantined,) = (tmp_path / "bad").iterdir()  # once, however many daemons met it
    with open_dataset(packed) as dataset:
        assert quarantined.name == f"{dataset.fingerprint.removeprefix('content:')}.jsonl"
        source = dataset.source(1)
    (line,) = map(json.loads, quarantined.read_text().splitlines())
    assert (line["id"], line["field"], line["source"]) == (1, "", source)
    assert "stored bytes no longer have the check" in line["reason"]
    done = stoker("verify", packed, "--workers", 1, "--list", tmp_path / "found.jsonl")
    assert done.code == 1
    (found,) = map(json.loads, (tmp_path / "found.jsonl").read_text().splitlines())
    assert (found["id"], found["field"], found["source"]) == (1, "image", source)
    assert found["reason"].startswith("cannot decode it: ")
    monkeypatch.setenv("STOKER_BAD_SAMPLES_MAX_FRACTION", "0.1")
    with pytest.raises(StreamStoppedError, match=r"1 of the 6 samples .*max_fraction = 0\.1"):
        first(packed, plain, on_error="replace")


# ------------------------------------------------------------------ pipelines


class RenamedOp:
    """A pipeline whose graph names an op that no Stoker has."""

    @staticmethod
    def graph():
        return RenamedOp

    @staticmethod
    def to_data():
        return json.loads(json.dumps(plain.graph().to_data()).replace('"resize"', '"resizes"'))


@pipeline
def unknown_field(sample):
    return {"image": ops.resize(sample.imagge, size=(32, 32))}  # the unknown field


@pipeline
def jittered_mask(sample):
    image, mask = ops.resize(sample.image, sample.mask, size=(32, 32))
    mask = ops.color_jitter(mask, brightness=0.2)  # the mask is jittered
    return {"image": image, "mask": mask}


@pipeline
def flipped(sample):
    return {"image": ops.resize(ops.horizontal_flip(sample.image), size=(16, 16))}


REFUSED = [
    ({"pipeline": RenamedOp}, UnknownNameError, r"no op 'resizes'; did you mean 'resize'\?", None),
    ({"pipeline": unknown_field}, BuildError, r"no field .imagge.; did you mean .image.\?",
     "# the unknown field"),
    ({"pipeline": jittered_mask, "dataset": "pairs"}, BuildError,
     "color_jitter has no rule for a mask", "# the mask is jittered"),
    ({"pipeline": "trains"}, UnknownNameError, "no pipeline 'trains'", None),
    ({"dataset": "fotos"}, UnknownNameError, r"no dataset 'fotos'(.|\n)*photos", None),
    ({"pipeline": flipped, "freeze": {"horizontal_flop": 3}}, UnknownNameError,
     r"no stream 'horizontal_flop'.*horizontal_flip", None),
    ({"global_batch_size": 2, "rank": 2, "world_size": 5, "batch_size": None}, UsageError,
     "5 ranks need at least one position each", None),
]  # fmt: skip
"""What a Loader or its daemon refuses: (arguments, error, message, text of the named line)."""


@pytest.mark.parametrize(("given", "error", "message", "marker"), REFUSED)
def test_what_is_refused_when_a_stream_is_opened(address, given, error, message, marker):
    options = {"dataset": "photos", "pipeline": plain, "batch_size": 2, "device": "numpy"}
    with pytest.raises(error, match=message) as caught:
        Loader(address, **options | given).close()
    if marker is not None:
        assert f"{THIS}:{line_of(marker)}" in str(caught.value)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Datasets: "whole", one of a newer version, and one whose path is not UTF-8."""
    folder = tmp_path_factory.mktemp("places")
    rows = [{"image": np.zeros((8, 8, 3), np.uint8), "label": 0}] * 2
    for name in ("whole", "newer"):
        write(folder / name, [schema.image(encoding="raw"), schema.label()], rows)
    manifest = folder / "newer" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": 99}))
    os.symlink(folder / "whole", folder / NO_UTF8)
    return folder


NO_UTF8 = os.fsdecode(b"\xff")
OF_PATHS = [
    (lambda _: ops.horizontal_flop, AttributeError,
     "stoker.ops has no 'horizontal_flop'; did you mean ops.horizontal_flip"),
    (lambda places: first(places / "nowhere", plain), DatasetError,
     "there is no dataset at .*/nowhere"),
    (lambda places: first(places / "newer", plain), VersionError,
     "has format version 99, .* update Stoker, or pack the dataset again"),
    (lambda places: first(places / "whole", "no_such_module:train"), BuildError,
     "there is no module 'no_such_module'"),
    (lambda places: first(places / NO_UTF8, plain), DatasetError,
     "this one is not UTF-8; rename it, or make a link"),
    (lambda places: first(places / NO_UTF8 / "*.tar", plain), DatasetError,
     "this one is not UTF-8; rename it, or make a link"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), OF_PATHS, ids=[message[:60] for *_, message in OF_PATHS]
)
def test_what_is_refused_of_a_path(places, call, error, message):
    with pytest.raises(error, match=message):
        call(places)


def test_two_calls_with_one_default_stream_name():
    @pipeline
    def wrong(sample):
        image = ops.horizontal_flip(sample.image)  # the first flip
        image = ops.horizontal_flip(image)  # the second flip
        return {"image": ops.resize(image, size=(8, 8))}

    with pytest.raises(BuildError, match="horizontal_flip") as caught:
        wrong.graph()
    for marker in ("# the first flip", "# the second flip"):
        assert f"{THIS}:{line_of(marker)}" in str(caught.value)
    assert "stream=" in str(caught.value)


# ------------------------------------------------------------------ daemon


def test_too_little_memory(address):
    numbers = r"needed \d+ bytes .* allowed \d+ \(memory.limit \d+, used \d+\); use a smaller batch"
    with pytest.raises(ResourceError, match=numbers):
        Loader(address, dataset="photos", pipeline=plain, batch_size=6, prefetch=200)
    # The refusal affects no other request: a smaller one is served.
    assert first(address, plain, dataset="photos", prefetch=1).image.shape == (2, 32, 32, 3)
