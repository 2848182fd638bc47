"""A plan as Python: what is printed is run, and gives the bytes of machine code."""

import importlib.util

import numpy as np
import pytest

from stoker import ops
from stoker.ops.contract.op import State
from stoker.pipeline import one_of, outputs, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.planning.plan import bind
from stoker.pipeline.showing.source import source
from stoker.protocol.forms import cut
from stoker.protocol.items import ItemField
from stoker.rng.row import Row

IMAGE = np.random.default_rng(4).integers(0, 256, (40, 52, 3), np.uint8)
BOXES = np.array([[2, 3, 20, 30], [1, 1, 50, 9], [30, 20, 44, 39]], np.float32)
FIELDS = {
    "image": IMAGE,
    "mask": IMAGE[..., 0] // 64,
    "boxes": BOXES.view(np.uint32),
    "vector": np.arange(6, dtype=np.float32),
    "label": np.int64(3),
    "weight": np.float64(0.25),
}


@pipeline
def branches(sample):
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=(24, 32))
    image, mask = ops.horizontal_flip(image, mask)
    if sample.label > 2 and sample.weight < 0.5:
        image = ops.brightness(image, p=1.0)
        scale = 2
    elif image.mean() > 100:
        scale = sample.weight / (sample.label - 3)
    else:
        image, mask = ops.resize(image, mask, size=(24, 32))
        scale = sample.label // 2 - sample.label % 5
    image = ops.normalize(image, dtype="float16", layout="CHW")
    return {"image": image, "mask": mask, "label": sample.label * 2**62, "scale": scale}


@pipeline
def nested(sample):
    mask = sample.mask
    if sample.label != 0:
        image, mask = ops.rotate(sample.image, mask, degrees=20)
        if mask.max() != 3 or image.height > 100:
            image = ops.invert(image, p=1.0)
    else:
        image = ops.grayscale(sample.image, p=1.0)
    image, mask = ops.center_crop(image, mask, size=20)
    return {"image": image, "mask": mask, "negative": -sample.weight, "id": sample["stoker.id"]}


@pipeline
def chosen(sample):
    image = ops.resize(sample.image, size=24)
    image = one_of(image, choices=[ops.Invert(p=1.0), ops.Posterize(p=1.0), ops.GaussianBlur()])
    image = ops.color_jitter(image, brightness=0.4, hue=0.1)
    stacked = ops.stack(image, ops.vertical_flip(image))
    return {"image": image, "stacked": ops.cast(stacked, dtype="float32")}


@pipeline
def with_boxes(sample):
    image, boxes = ops.random_crop(sample.image, sample.boxes, size=32, padding=4)
    image, boxes = ops.iou_crop(image, boxes, min_scale=0.5)
    image, boxes = ops.horizontal_flip(image, boxes)
    if boxes.count > 1:
        image = ops.invert(image, p=1.0)
    boxes = ops.convert_boxes(ops.filter_boxes(boxes, min_side=2), form="cxcywh")
    return {"image": outputs.as_list(image), "boxes": boxes}


@pipeline
def following(sample, ctx):
    gain = 1.0 + ctx.progress * 0.5 if ctx.epoch > 1 else 1.0
    image = ops.brightness(sample.image, factor_range=(1.0, gain), p=1.0)
    return {"image": outputs.pad(image, multiple=8), "step": ctx.step + 1}


def twice(image):
    return image // 2


@pipeline
def in_python(sample):
    return {"image": ops.python(twice, sample.image, randomness="none"), "vector": sample.vector}


@pytest.fixture
def module_of(tmp_path):
    def load(plan):
        path = tmp_path / "printed.py"
        path.write_text(source(plan))
        spec = importlib.util.spec_from_file_location("printed", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def compiled_rows(plan, rows):
    """Yield name -> array of each row, of the size that it has."""
    engine = compile_plan(plan)
    for row in rows:
        made = [np.zeros(output.shape, output.dtype) for output in plan.outputs]
        engine.run(row, [FIELDS[name] for name in plan.fields], made)
        found = {output.name: array for output, array in zip(plan.outputs, made, strict=True)}
        for output in plan.outputs:
            if output.items:
                found[output.name] = found[output.name][: found[f"{output.name}.count"]]
            elif output.has_sizes:
                size = found[f"{output.name}.size"].tolist()
                found[output.name] = np.ascontiguousarray(cut(output, found[output.name], size))
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("flow", [branches, nested, chosen, with_boxes, following, in_python])
def test_what_is_printed_runs_and_gives_the_bytes_of_machine_code(flow, module_of):
    plan = plan_of(flow)
    module = module_of(plan)
    rows = [
        Row(9, sample, epoch, visit, 0, step=3, progress=0.5)
        for sample in (0, 5, 2**40) for epoch in (0, 2) for visit in (0, 1)
    ]  # fmt: skip
    seen = set()
    for row, expected in zip(rows, compiled_rows(plan, rows), strict=True):
        given = {name: FIELDS[name] for name in plan.fields}
        got = module.row(given, **row._asdict())
        assert list(got) == [o.name for o in plan.outputs if o.kind not in ("count", "size")]
        for name, array in got.items():
            assert (array.dtype, array.shape) == (expected[name].dtype, expected[name].shape)
            assert array.tobytes() == expected[name].tobytes(), name
        seen.add(b"".join(array.tobytes() for array in got.values()))
    assert len(seen) > 1 or flow is in_python


def plan_of(flow):
    kinds = {"image": "image", "mask": "mask", "vector": "array"}
    states = {
        name: State.fixed(kinds.get(name, "scalar"), str(value.dtype), value.shape)
        for name, value in FIELDS.items()
    }
    states["boxes"] = State.ragged("boxes", (ItemField("xyxy", "float32", 4),), 8)
    return bind(flow.graph(), states)


def test_the_text_says_every_call_and_is_the_same_each_time():
    plan = plan_of(branches)
    text = source(plan)
    assert text == source(plan_of(branches))
    for part in (
        f'"""Pipeline {plan.pipeline_id}: one row of it, by plain NumPy."""',
        "from stoker.ops.geometry.horizontal_flip import HorizontalFlip\n",
        "\nop1 = HorizontalFlip(p=0.5)\n",
        'HorizontalFlip.draw(key("horizontal_flip"), p1, *size_of(',
        'HorizontalFlip.kernels["mask"].plain(v',
        'kernels["image"].plain(v',
        "in the row of output 'image'",
        "test_source.py:",
        "    if v",
        "    else:\n",
        '.view("float16")',
    ):
        assert part in text, text
    assert all(len(line) < 400 for line in text.splitlines())


def test_rows_that_are_mixed_are_told():
    @pipeline
    def mixed(sample):
        return {"image": ops.mixup(ops.resize(sample.image, size=16))}

    text = source(mixed.plan_for({"image": IMAGE}))
    assert "    # batch ops, on finished rows:\n    # mixup d1 of image: with" in text
