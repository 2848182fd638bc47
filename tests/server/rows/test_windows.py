"""Rows of gridded JPEGs: decoding only what a row reads gives the bytes of decoding it whole."""

import io

import numpy as np
import pytest
import skimage.data
from PIL import Image

from stoker import ops
from stoker.dataset import open_dataset, schema
from stoker.dataset.packing.build import write_dataset
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.pipeline import pipeline, shared_views
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.window_program import Windows
from stoker.pipeline.plain.plain_windows import PlainWindows
from stoker.pipeline.planning.decoded_boxes import windowed
from stoker.pipeline.planning.planner import bind, shorten
from stoker.protocol.errors import SampleError
from stoker.protocol.slot_layout import slot_layout
from stoker.rng.row import Row
from stoker.server.rows.field_states import field_states
from stoker.server.rows.listener import RowListener
from stoker.server.rows.reference import make_spec, reference_batches
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_reader import SampleReader
from stoker.server.rows.sample_rows import RowSource


@pipeline
def one_crop(sample):
    image = ops.random_resized_crop(sample.image, size=32)
    return {"image": ops.horizontal_flip(image)}


@pipeline
def two_crops(sample):
    """The box round both is decoded."""
    left = ops.random_crop(sample.image, size=20, padding=4, stream="left")
    right = ops.random_crop(sample.image, size=20, stream="right")
    return {"left": left, "right": right}


@pipeline
def crop_in_branches(sample):
    if sample.label > 3:
        image = ops.random_resized_crop(sample.image, size=32, scale=(0.1, 0.3))
    else:
        image = ops.center_crop(sample.image, size=32)
    return {"image": image, "height": sample.image.height}


@pipeline
def far_outside(sample):
    """Windows larger than the picture, and windows that hardly touch it."""
    return {
        "large": ops.center_crop(sample.image, size=300, fill=9),
        "edge": ops.random_crop(sample.image, size=8, padding=7),
    }


@pipeline
def with_statistics(sample):
    image = ops.center_crop(sample.image, size=16)
    if sample.image.mean() > 100:
        image = ops.invert(image, p=1)
    return {"image": image}


@pipeline
def with_a_second_use(sample):
    small = ops.resize(sample.image, size=(16, 16))
    return {"small": small, "crop": ops.center_crop(sample.image, size=16)}


@pipeline
def with_a_schedule(sample, ctx):
    low = 0.5 - 0.4 * ctx.progress
    return {"image": ops.random_resized_crop(sample.image, size=16, scale=(low, 1.0))}


@pipeline
def resize_and_crop(sample):
    image = ops.resize_short(sample.image, size=48, max_size=200)
    return {"image": ops.center_crop(image, size=40)}


@pytest.fixture(scope="module")
def gridded(tmp_path_factory):
    """Ten photographs of different sizes, samplings and orientations, with grids."""
    photographs = (skimage.data.astronaut(), skimage.data.chelsea(), skimage.data.coffee())
    rows = []
    for number in range(10):
        pixels = photographs[number % 3][20 : 150 + 13 * number, 30 : 260 - 17 * number]
        out, exif = io.BytesIO(), Image.Exif()
        exif[0x0112] = 1 if number < 5 else number - 2
        Image.fromarray(pixels).save(
            out, "JPEG", quality=85, subsampling=number % 3, progressive=number == 4, exif=exif
        )
        rows.append({"image": out.getvalue(), "label": number})
    folder = tmp_path_factory.mktemp("windows") / "d"
    write_dataset(folder, schema.Schema((schema.image(grid=True), schema.label())), rows)
    return folder


def rows_of(folder, graph, spec):
    """Return the rows of two epochs by machine code, and how many boxes were decoded alone."""
    with open_dataset(folder) as dataset:
        plan, boxes = shorten(bind(graph, field_states(dataset))), []
        layout = slot_layout(plan.outputs, spec.batch_size * spec.views)
        computer = RowComputer(
            spec, [RowSource(dataset, compile_plan(plan, spec.freeze))], layout, arithmetic=COMPILED
        )
        whole = dataset.decode_box
        dataset.decode_box = lambda *args: boxes.append(args[2]) or whole(*args)
        slot, found = np.zeros(layout.slot_bytes, np.uint8), []
        for epoch in range(2):
            computer.fill(slot, epoch, 0, 0, layout.rows)
            found.append(
                {
                    placed.name: slot[placed.offset : placed.offset + placed.size_bytes].tobytes()
                    for placed in layout.outputs
                }
            )
    return found, len(boxes)


@pytest.mark.parametrize(
    ("made", "boxes", "more"),
    [
        (one_crop, 20, {}),
        (one_crop, 60, {"views": 3}),
        (one_crop, 20, {"freeze": {"random_resized_crop": 5}}),
        (two_crops, 20, {}),
        (crop_in_branches, 20, {}),
        (far_outside, 20, {}),
        (resize_and_crop, 20, {}),
        (with_statistics, 0, {}),
        (with_a_second_use, 0, {}),
        (with_a_schedule, 0, {"total_epochs": 2}),
    ],
    ids=lambda value: getattr(value, "name", None) or str(value),
)
def test_rows_are_those_of_the_interpreter_that_decodes_all(gridded, made, boxes, more):
    graph = made.graph()
    spec = make_spec(gridded, graph, batch_size=10, seed=3, **more)
    found, decoded = rows_of(gridded, graph, spec)
    assert decoded == boxes
    for epoch in range(2):
        ((_, expected),) = reference_batches(gridded, graph, spec, epoch=epoch)
        assert found[epoch] == {name: array.tobytes() for name, array in expected.items()}


@pipeline
def same_windows(sample):
    with shared_views():
        image = ops.random_resized_crop(sample.image, size=32)
    return {"image": ops.horizontal_flip(image)}


@pytest.mark.parametrize(
    ("made", "whole", "boxes"),
    [(with_statistics, 10, 0), (same_windows, 0, 10), (one_crop, 1, 30)],
    ids=lambda value: getattr(value, "name", None) or str(value),
)
def test_views_that_read_the_same_share_one_decode(gridded, made, whole, boxes):
    """The bytes are those of rows that are each computed by a reader of its own.

    One box shows most of its photograph, which is then decoded whole. The listener is called
    once for each decode, in either way.
    """
    spec = make_spec(gridded, made.graph(), batch_size=10, seed=3, views=3)
    counts = {"decode": 0, "decode_box": 0}
    with open_dataset(gridded) as dataset:
        for name in counts:
            count_calls(dataset, name, counts)
        plan = shorten(bind(made.graph(), field_states(dataset)))
        layout = slot_layout(plan.outputs, 30)
        engine = compile_plan(plan)
        slots = [np.zeros(layout.slot_bytes, np.uint8) for _ in range(2)]
        heard = Heard()
        RowComputer(
            spec, [RowSource(dataset, engine)], layout, arithmetic=COMPILED, listener=heard
        ).fill(slots[0], 0, 0, 0, 30)
        assert heard.decodes == (boxes or whole)
        assert counts == {"decode": whole, "decode_box": boxes}
        for row in range(30):
            alone = RowComputer(spec, [RowSource(dataset, engine)], layout, arithmetic=COMPILED)
            alone.fill(slots[1], 0, 0, row, row + 1)
        assert counts["decode_box" if boxes else "decode"] == (boxes or whole) + 30
    assert np.array_equal(*slots)


class Heard(RowListener):
    """Counts the decodes."""

    decodes = 0

    def decode_begins(self):
        self.decodes += 1


def count_calls(dataset, name, counts):
    method = getattr(dataset, name)

    def counting(*args, **more):
        counts[name] += 1
        return method(*args, **more)

    setattr(dataset, name, counting)


@pytest.mark.parametrize(
    "made", [one_crop, two_crops, crop_in_branches, far_outside, resize_and_crop]
)
@pytest.mark.parametrize("freeze", [None, "epoch"])
def test_boxes_are_those_of_plain_python(gridded, made, freeze):
    with open_dataset(gridded) as dataset:
        plan = shorten(bind(made.graph(), field_states(dataset)))
    frozen = dict.fromkeys(plan.streams, freeze) if freeze else None
    fast, plain = (kind(plan, ["image"], frozen) for kind in (Windows, PlainWindows))
    assert fast.fields == plain.fields == ("image",)
    rng = np.random.default_rng(4)
    for number, size in enumerate(rng.integers(1, 400, (300, 2)).tolist()):
        row = Row(7, number, number % 3, number % 2, number % 5)
        sizes = {"image": (size[0], size[1])}
        found = fast.boxes(row, sizes)
        assert found == plain.boxes(row, sizes)
        top, left, height, width = found["image"]
        assert 0 <= top < top + height <= size[0]
        assert 0 <= left < left + width <= size[1]


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
def test_a_size_of_nothing_is_a_bad_sample(gridded, arithmetic):
    with open_dataset(gridded) as dataset:
        plan = shorten(bind(resize_and_crop.graph(), field_states(dataset)))
        reader = SampleReader(dataset, plan.fields)
        reader.read_boxes(plan, None, arithmetic=arithmetic)
        reader.read(3, Row(0, 3, 0))
        dataset.size = lambda field, number: (0, 9)
        with pytest.raises(SampleError, match="its size 0x9 or orientation 1 is damaged"):
            reader.read(3, Row(0, 3, 0))


def test_which_fields_are_read_in_boxes(gridded):
    with open_dataset(gridded) as dataset:
        states = field_states(dataset)
        found = {
            made.name: [d.op.name for d in windowed(bind(made.graph(), states)).get("image", ())]
            for made in (one_crop, two_crops, crop_in_branches, with_statistics, with_a_second_use)
        }
    assert found == {
        "one_crop": ["random_resized_crop"],
        "two_crops": ["random_crop", "random_crop"],
        "crop_in_branches": ["random_resized_crop", "center_crop"],
        "with_statistics": [],
        "with_a_second_use": [],
    }


@pipeline
def crop_of_two_sizes(sample):
    image, depth = ops.random_resized_crop(sample.image, sample.depth, size=32, relative=True)
    image, depth = ops.horizontal_flip(image, depth)
    return {"image": image, "depth": depth}


@pipeline
def map_alone(sample):
    """The size of the picture counts, and none of its pixels."""
    _, depth = ops.random_resized_crop(sample.image, sample.depth, size=32, relative=True)
    return {"depth": depth, "height": sample.image.height}


@pipeline
def map_first(sample):
    depth, image = ops.random_resized_crop(sample.depth, sample.image, size=32, relative=True)
    return {"image": image, "depth": depth}


@pipeline
def map_of_a_made_picture(sample):
    """The size of what was padded is not known before it is decoded: both are read whole."""
    image = ops.pad(sample.image, padding=3)
    image, depth = ops.random_resized_crop(image, sample.depth, size=32, relative=True)
    return {"image": image, "depth": ops.unlinked(depth)}


@pytest.fixture(scope="module")
def with_maps(tmp_path_factory):
    """Ten photographs with grids, and maps in bands of about half their size."""
    photograph, rows = skimage.data.coffee(), []
    for number in range(10):
        pixels = photograph[: 250 + 13 * number, : 460 - 17 * number]
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "JPEG", quality=85)
        depth = np.ascontiguousarray(pixels[number % 2 :: 2, ::2, 0].astype(np.uint16) * 200)
        rows.append({"image": out.getvalue(), "depth": depth})
    folder = tmp_path_factory.mktemp("maps") / "d"
    fields = schema.image(grid=True), schema.mask("depth", encoding="bands", dtype="uint16")
    write_dataset(folder, schema.Schema(fields), rows)
    return folder


@pytest.mark.parametrize(
    ("made", "boxes"),
    [(crop_of_two_sizes, 40), (map_alone, 20), (map_first, 40), (map_of_a_made_picture, 0)],
    ids=lambda value: getattr(value, "name", None) or str(value),
)
def test_a_map_of_another_size_is_read_by_its_own_box(with_maps, made, boxes):
    graph = made.graph()
    spec = make_spec(with_maps, graph, batch_size=10, seed=3)
    found, decoded = rows_of(with_maps, graph, spec)
    assert decoded == boxes
    for epoch in range(2):
        ((_, expected),) = reference_batches(with_maps, graph, spec, epoch=epoch)
        assert found[epoch] == {name: array.tobytes() for name, array in expected.items()}


@pytest.mark.parametrize("made", [crop_of_two_sizes, map_alone, map_first])
def test_boxes_of_two_sizes_are_those_of_plain_python(with_maps, made):
    with open_dataset(with_maps) as dataset:
        plan = shorten(bind(made.graph(), field_states(dataset)))
    fast, plain = (kind(plan, ["image", "depth"]) for kind in (Windows, PlainWindows))
    assert fast.fields == plain.fields
    assert fast.sized == plain.sized
    assert set(fast.sized) == {"image", "depth"}
    rng = np.random.default_rng(4)
    for number, sides in enumerate(rng.integers(1, 400, (300, 4)).tolist()):
        row = Row(7, number, number % 3, number % 2, number % 5)
        sizes = {"image": (sides[0], sides[1]), "depth": (sides[2], sides[3])}
        found = fast.boxes(row, sizes)
        assert found == plain.boxes(row, sizes)
        for name, (top, left, height, width) in found.items():
            assert 0 <= top < top + height <= sizes[name][0]
            assert 0 <= left < left + width <= sizes[name][1]


def test_a_decision_is_drawn_once(gridded):
    """The row is computed with the values that were drawn for its box, and no other row is."""
    with open_dataset(gridded) as dataset:
        plan = shorten(bind(one_crop.graph(), field_states(dataset)))
        engine, row = compile_plan(plan), Row(5, 3, 0)
        reader = SampleReader(dataset, plan.fields)
        reader.read_boxes(plan, None, arithmetic=COMPILED, engine=engine)
        image = np.zeros(plan.outputs[0].shape, np.uint8)

        def run(row, changed):
            inputs = reader.read(row.id, row)
            if changed:
                engine.record_table["d0"][...] = np.zeros_like(engine.record_table["d0"])
                engine.record_table["d0"]["height"] = engine.record_table["d0"]["width"] = 1
            engine.run(row, inputs, [image])
            return image.copy()

        good = run(row, changed=False)
        assert not np.array_equal(run(row, changed=True), good), "the record is drawn again"
        inputs = reader.read(row.id, row)
        engine.run(Row(5, 3, 1), inputs, [image])  # another row takes nothing over
        assert np.array_equal(run(row, changed=False), good)
