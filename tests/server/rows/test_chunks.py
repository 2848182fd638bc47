"""Chunks in one compiled call: the rows are those of the interpreter, one after the other."""

import shutil

import numpy as np
import pytest
from listeners import Heard

from stoker import ops
from stoker.dataset import open_dataset, schema
from stoker.dataset.packing.build import Cut, write_dataset
from stoker.jit.arithmetic import COMPILED
from stoker.order.compose import dataset_order
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import SampleError
from stoker.protocol.slot_layout import slot_layout
from stoker.protocol.spec import OrderSpec
from stoker.server.rows.field_states import field_states
from stoker.server.rows.reference import make_spec, reference_batches
from stoker.server.rows.row_computer import ALL_ROWS, RowComputer
from stoker.server.rows.sample_rows import RowSource

ROWS = 50
CUTS = (((0, None),), ((0, 5), (5, 6), (6, None)), ((0, 2), (2, 5), (5, None)))
"""Some of them shorter than the rows whose samples are fetched ahead, or no longer."""


@pipeline
def small(sample, ctx):
    image = ops.random_crop(sample.image, size=32, padding=4)
    image = ops.horizontal_flip(image)
    if sample.label > 4:
        image = ops.invert(image, p=0.5)
    return {
        "image": ops.normalize(image, dtype="float16", layout="CHW"),
        "label": sample.label,
        "vector": sample.vector,
        "flag": sample.flag,
        "id": ctx.id,
        "late": ctx.id >= 9,
    }


@pipeline
def scheduled(sample, ctx):
    return {"image": ops.invert(sample.image, p=0.5 * ctx.progress)}


@pipeline
def ragged(sample):
    return {"image": sample.image, "boxes": sample.boxes}


@pipeline
def mixed(sample):
    """Batch ops in branches, one after the other."""
    image = ops.horizontal_flip(ops.random_crop(sample.image, size=32, padding=4))
    if sample.label > 4:
        image = ops.mosaic(image, p=0.7)
    label = ops.one_hot(sample.label, classes=10)
    image, label = ops.mixup(image, label, alpha=1.0, p=0.7)
    return {"image": image, "label": label, "vector": sample.vector}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Raw images of 32x32, in several files."""
    rng = np.random.default_rng(0)
    fields = (
        schema.image(encoding="raw"),
        schema.label(),
        schema.array("vector", "float32", (5,)),
        schema.scalar("flag", "bool"),
        schema.boxes(),
    )
    rows = (
        {
            "image": rng.integers(0, 256, (32, 32, 3), np.uint8),
            "label": number % 10,
            "vector": rng.random(5, np.float32),
            "flag": number % 3 == 0,
            "boxes": {"xyxy": np.zeros((number % 3, 4), np.float32)},
        }
        for number in range(ROWS)
    )
    path = tmp_path_factory.mktemp("chunks") / "d"
    write_dataset(path, schema.Schema(fields), rows, cut=Cut(rows=7))
    return path


def fill(path, made, spec, step=0, chunks=((0, None),), crashed=(), samples=None, **opened):
    """Return the outputs of a step by machine code, and the rows that began.

    `samples` takes those that began.
    """
    heard = Heard(samples=samples)
    with open_dataset(path, **opened) as dataset:
        plan = bind(made.graph(), field_states(dataset))
        layout = slot_layout(plan.delivered, spec.batch_size * spec.views)
        computer = RowComputer(
            spec,
            [RowSource(dataset, compile_plan(plan))],
            layout,
            arithmetic=COMPILED,
            listener=heard,
        )
        computer.home = range(5, 20)
        slot = np.full(layout.slot_bytes, 170, np.uint8)
        counts = [
            computer.fill(
                slot,
                0,
                step,
                low,
                layout.rows if high is None else high,
                crashed=crashed,
            )
            for low, high in chunks
        ]
    found = {
        placed.name: slot[placed.offset : placed.offset + placed.size_bytes]
        .view(placed.dtype)
        .reshape(placed.shape)
        for placed in layout.outputs
    }
    return found, heard.rows, counts


def spec_of(path, made, **more):
    return make_spec(path, made.graph(), seed=4, **{"batch_size": 16, **more})


@pytest.mark.parametrize("views", [1, 3])
@pytest.mark.parametrize("chunks", CUTS)
def test_rows_are_those_of_the_interpreter(folder, views, chunks):
    spec = spec_of(folder, small, views=views)
    expected = list(reference_batches(folder, small.graph(), spec))
    for step, batch in expected:
        found, told, counts = fill(folder, small, spec, step, chunks)
        assert told == [low if high == low + 1 else ALL_ROWS for low, high in chunks]
        assert sum(count.rows for count in counts) == 16 * views
        assert found.keys() == batch.keys()
        assert np.array_equal(found["id"], found["index"])
        assert np.array_equal(found["late"], found["index"] >= 9)
        for name, array in batch.items():
            assert np.array_equal(
                found[name].view(np.uint8), np.ascontiguousarray(array).view(np.uint8)
            ), name
        home = np.isin(batch["index"], np.arange(5, 20)).sum()
        assert sum(count.home_rows for count in counts) == home


@pytest.mark.parametrize("views", [1, 3])
def test_groups_of_rows_are_computed_in_one_call_and_then_mixed(folder, views):
    """A group that is in a claim as a whole is; of one that is cut each row is by itself."""
    spec = spec_of(folder, mixed, views=views, batch_size=20)
    rows = 20 * views
    for step, batch in list(reference_batches(folder, mixed.graph(), spec))[:2]:
        for chunks in ((0, rows),), ((0, 3), (3, rows)):
            found, told, _ = fill(folder, mixed, spec, step, chunks)
            for name, array in batch.items():
                assert found[name].tobytes() == np.ascontiguousarray(array).tobytes(), name
            groups = -(-rows // 8) - (len(chunks) - 1)
            assert groups < told.count(ALL_ROWS) <= 2 * groups  # once for rows, once for tiles
            assert set(told) == {ALL_ROWS, *range(rows)}


def test_rows_that_pad_are_computed_one_by_one(folder):
    spec = spec_of(folder, small, tail="pad")
    *_, (step, batch) = reference_batches(folder, small.graph(), spec)
    found, told, _ = fill(folder, small, spec, step)
    assert told == list(range(16))
    assert found["valid"].tolist() == [True] * 2 + [False] * 14
    assert found["image"].tobytes() == batch["image"].tobytes()


def test_a_chunk_with_a_sample_that_crashes_goes_row_by_row(folder):
    """The sample is not touched; a row alone says which one it reads."""
    spec = spec_of(folder, small)
    (_, plain), *_ = reference_batches(folder, small.graph(), spec)
    gone = int(plain["index"][3])
    (_, batch), *_ = reference_batches(folder, small.graph(), spec, crashed=[gone])
    samples: list[int] = []
    found, told, counts = fill(folder, small, spec, 0, ((0, 1), (1, 8), (8, None)), [gone], samples)
    assert told == [0, *range(1, 8), ALL_ROWS]
    assert samples == [int(number) for number in batch["index"][:8]]
    assert sum(count.replaced_rows for count in counts) == 1
    assert found["requested"][3] == gone != found["index"][3]
    for name, array in batch.items():
        assert found[name].tobytes() == np.ascontiguousarray(array).tobytes(), name


def test_a_damaged_sample_is_found_and_told(folder, tmp_path):
    """The height of one row is another than the schema's: the row is at fault, not the chunk."""
    with open_dataset(folder) as dataset:
        file = dataset.manifest.files[1]
    path = folder / file.name
    whole = path.read_bytes()
    data = bytearray(whole)
    place = file.columns["image.height"].data.offset
    data[place : place + 4] = (31).to_bytes(4, "little")
    spec = spec_of(folder, small, order=OrderSpec(shuffle=False), on_error="mask")
    try:
        path.write_bytes(data)
        found, told, _ = fill(folder, small, spec)
        both = spec_of(folder, mixed, order=OrderSpec(shuffle=False), on_error="mask")
        mixes = (
            [array[:16] for array in fill(folder, mixed, both)[0].values()],
            [
                array[:16]
                for array in next(reference_batches(folder, mixed.graph(), both))[1].values()
            ],
        )
        with pytest.raises(SampleError, match="expected an image of 31x32"):
            fill(
                folder,
                small,
                spec_of(folder, small, order=OrderSpec(shuffle=False), on_error="raise"),
            )
    finally:
        path.write_bytes(whole)
    assert told == [ALL_ROWS, *range(16)]
    assert found["valid"].tolist() == [True] * 7 + [False] + [True] * 8
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*mixes, strict=True))


@pytest.mark.parametrize(
    ("made", "more"), [(scheduled, {"total_epochs": 2}), (ragged, {})], ids=["schedule", "ragged"]
)
def test_other_pipelines_go_row_by_row(folder, made, more):
    spec = spec_of(folder, made, **more)
    (_, batch), *_ = reference_batches(folder, made.graph(), spec)
    found, told, _ = fill(folder, made, spec)
    assert told == list(range(16))
    assert found["image"].tobytes() == batch["image"].tobytes()


def test_rows_that_changed_are_found_before_they_are_computed_at_once(folder, tmp_path):
    copy = tmp_path / "d"
    shutil.copytree(folder, copy)
    spec = spec_of(copy, small, on_error="replace")
    with open_dataset(copy) as dataset:
        bad = dataset_order(spec).rows(0, 0, 5, 6).ids.tolist()[0]
        file, offset = dataset.locate("image", bad)
    with (copy / file.name).open("r+b") as data:
        data.seek(offset)
        byte = data.read(1)[0]
        data.seek(offset)
        data.write(bytes([byte ^ 1]))
    found, told, _ = fill(copy, small, spec, integrity="rows")
    assert told[0] == ALL_ROWS
    assert bad in found["requested"]
    assert bad not in found["index"]
    expected = dict(reference_batches(copy, small.graph(), spec, integrity="rows"))[0]
    assert np.array_equal(found["image"], expected["image"])
    found, told, _ = fill(copy, small, spec)  # not checked: delivered as it is
    assert (told, bad in found["index"]) == ([ALL_ROWS], True)
