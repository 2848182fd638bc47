"""The shape of a padded batch: that of its longest row, in every worker."""

import re
from pathlib import Path

import numpy as np
import pytest
import skimage.data

from stoker import ops
from stoker.dataset import open_dataset, schema, write
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.order.compose import dataset_order
from stoker.pipeline import outputs, pipeline
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import SampleError, UsageError
from stoker.protocol.slot_layout import batch_layout, slot_layout
from stoker.server.rows.extents import KEPT, Extents
from stoker.server.rows.field_states import field_states
from stoker.server.rows.reference import make_spec
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource

ROWS = 30


@pipeline
def padded(sample, ctx):
    image, mask = ops.random_short_side_scale(sample.image, sample.mask, sizes=(8, 24), max_size=32)
    if sample.label == 2 and ctx.view == 1:
        image, mask = ops.rot90(image, mask, turns=1, p=0.5)
    return {
        "image": outputs.pad(image, multiple=4, fill=1),
        "mask": outputs.pad(mask),
        "words": outputs.pad(sample.words, multiple=2, fill=-1),
        "label": sample.label,
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    """Pictures of many sizes, masks, labels, and words, which some samples lack."""
    photo, noise = skimage.data.astronaut(), np.random.default_rng(5)
    rows = []
    for number in range(ROWS):
        height, width = noise.integers(10, 60, 2)
        words = np.arange(number % 5, dtype=np.int32)
        image = photo[:height, :width]
        mask = np.ascontiguousarray(image[..., 0])
        rows.append({"image": image, "mask": mask, "words": words, "label": number % 3})
    dest = tmp_path_factory.mktemp("extents") / "d"
    fields = [schema.image(encoding="raw"), schema.mask(encoding="raw")]
    write(dest, [*fields, schema.array("words", "int32", (None,)), schema.label()], rows)
    return dest


@pytest.fixture(scope="module")
def dataset(path):
    with open_dataset(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def plan(dataset):
    return bind(padded.graph(), field_states(dataset))


@pytest.fixture(scope="module")
def spec_of(path):
    return lambda **fields: make_spec(path, padded.graph(), **{"batch_size": 4, **fields})


def extents_of(spec, dataset, plan, arithmetic):
    order = dataset_order(spec, arithmetic=arithmetic)
    source = RowSource(dataset, Interpreter(plan))
    return Extents(spec, [source], order, arithmetic=arithmetic)


def up(value, multiple):
    return max(-(-value // multiple), 1) * multiple


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
def test_as_long_as_the_longest_row(dataset, plan, spec_of, arithmetic):
    spec = spec_of(views=2, seed=6, tail="pad")
    extents = extents_of(spec, dataset, plan, arithmetic)
    computer = RowComputer(
        spec, [RowSource(dataset, Interpreter(plan))], slot_layout(plan.outputs, 8)
    )
    seen = set()
    for epoch, step in ((0, 0), (0, 3), (1, 0), (1, 7)):
        layout = batch_layout(slot_layout(plan.outputs, 8), computer.shapes_of(epoch, step))
        slot = np.zeros(layout.slot_bytes, np.uint8)
        counts = computer.fill(slot, epoch, step, 0, 8)
        arrays = {
            p.name: slot[p.offset : p.offset + p.size_bytes].view(p.dtype).reshape(p.shape)
            for p in layout.outputs
        }
        shapes = extents.of(epoch, step)
        assert tuple(shapes.values()) == counts.shapes
        longest = {name: arrays[f"{name}.size"].max(0).tolist() for name in shapes}
        assert shapes["image"] == (up(longest["image"][0], 4), up(longest["image"][1], 4), 3)
        assert shapes["mask"] == tuple(longest["mask"])
        assert shapes["words"] == (up(longest["words"][0], 2),)
        assert [layout.outputs[0].shape, layout.outputs[4].shape] == [
            (8, *shapes["image"]), (8, *shapes["words"])
        ]  # fmt: skip
        seen.add(tuple(shapes.values()))
    assert len(seen) == 4


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
def test_what_is_padded_to_its_bound_has_one_shape(dataset, spec_of, arithmetic):
    """Beside one that is padded to the longest; alone it needs no lengths at all."""

    @pipeline
    def both(sample):
        words = sample.words
        return {
            "bound": outputs.pad(words, multiple=3, to="bound"),
            "longest": outputs.pad(words),
            "again": outputs.pad(sample.image, multiple=64, to="bound"),
        }

    @pipeline
    def alone(sample):
        return {"bound": outputs.pad(sample.words, to="bound")}

    found = {}
    for made in (both, alone):
        plan = bind(made.graph(), field_states(dataset))
        extents = extents_of(spec_of(batch_size=3), dataset, plan, arithmetic)
        found[made] = [extents.of(0, step) for step in range(8)]
    assert {shapes["bound"] for shapes in found[both]} == {(6,)}  # of 4 words at most
    assert {shapes["again"] for shapes in found[both]} == {(64, 64, 3)}
    assert len({shapes["longest"] for shapes in found[both]}) > 1
    assert all(list(shapes) == ["bound", "longest", "again"] for shapes in found[both])
    assert found[alone] == [{"bound": (4,)}] * 8


def test_what_was_computed_is_kept_for_some_steps(dataset, plan, spec_of):
    spec = spec_of(batch_size=1)
    extents = extents_of(spec, dataset, plan, PLAIN)
    first = extents.of(0, 0)
    assert extents.of(0, 0) is first
    for step in range(1, KEPT + 1):
        extents.of(0, step)
    again = extents.of(0, 0)
    assert again is not first
    assert again == first


def test_a_row_has_the_same_bytes_in_any_batch(dataset, plan, spec_of):
    """But for the padding behind it: draws and sizes know nothing of the batch."""
    found = []
    for batch_size in (1, 7, ROWS):
        spec, rows = spec_of(batch_size=batch_size, tail="pad"), {}
        layout = slot_layout(plan.outputs, batch_size)
        computer = RowComputer(spec, [RowSource(dataset, Interpreter(plan))], layout)
        for step in range(-(-ROWS // batch_size)):
            slot = np.zeros(layout.slot_bytes, np.uint8)
            computer.fill(slot, 0, step, 0, batch_size)
            arrays = {
                p.name: slot[p.offset : p.offset + p.size_bytes].view(p.dtype).reshape(p.shape)
                for p in batch_layout(layout, computer.shapes_of(0, step)).outputs
            }
            for row, number in enumerate(arrays["index"].tolist()):
                height, width = arrays["image.size"][row]
                if number >= 0:
                    rows[number] = arrays["image"][row, :height, :width].tobytes()
                else:
                    assert not arrays["image"][row].any()
                    assert not arrays["image.size"][row].any()
        found.append(rows)
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == ROWS


class Faulty(Interpreter):
    """An engine that fails for some sample ids, as a pure function of the id."""

    bad: frozenset[int] = frozenset()

    def run(self, row, inputs, outputs):
        if row.id in self.bad:
            raise SampleError(f"id {row.id} is bad", id=row.id)
        super().run(row, inputs, outputs)


def test_a_substitute_that_is_too_long_is_passed_over(dataset, plan, spec_of):
    spec = spec_of(on_error="replace")
    engine = Faulty(plan)
    engine.bad = frozenset(range(0, ROWS, 2))
    whole = slot_layout(plan.outputs, 4)
    computer = RowComputer(spec, [RowSource(dataset, engine)], whole)
    replaced = passed = 0
    for step in range(ROWS // 4):
        layout = batch_layout(whole, computer.shapes_of(0, step))
        slot = np.zeros(layout.slot_bytes, np.uint8)
        counts = computer.fill(slot, 0, step, 0, 4)
        arrays = {
            p.name: slot[p.offset : p.offset + p.size_bytes].view(p.dtype).reshape(p.shape)
            for p in layout.outputs
        }
        assert arrays["valid"].all()
        assert not set(arrays["index"].tolist()) & engine.bad
        assert (arrays["image.size"] <= layout.outputs[0].shape[1:3]).all()
        replaced += counts.replaced_rows
        assert {sample.id for sample in counts.bad} <= engine.bad, "one too long is not bad"
        for row in np.flatnonzero(arrays["index"] != arrays["requested"]):
            passed += passed_over(engine, spec, step, int(row), arrays)
    assert replaced > 5
    assert passed > 0, "a good substitute was too long for some batch"


def test_a_batch_that_is_too_short_for_every_substitute_says_what_to_do(dataset, plan, spec_of):
    spec = spec_of(on_error="replace", batch_size=1)
    order, engine = dataset_order(spec, arithmetic=PLAIN), Faulty(plan)
    whole = slot_layout(plan.outputs, 1)
    computer = RowComputer(spec, [RowSource(dataset, engine)], whole)
    slot, found = np.zeros(whole.slot_bytes, np.uint8), []
    for step in range(ROWS):
        engine.bad = frozenset([bad := int(order.rows(0, step, 0, 1).ids[0])])
        try:
            computer.fill(slot, 0, step, 0, 1)
        except SampleError as error:
            found.append((bad, error.message))
    assert 0 < len(found) < ROWS
    for bad, message in found:
        assert re.search(r"[0-9]+ of them are longer than the other rows", message)
        assert f"or leave the sample out with exclude=[{bad}]" in message


def passed_over(engine, spec, step, row, arrays):
    """Number of good substitutes before the one that was taken."""
    position, bad = step * 4 + row, int(arrays["requested"][row])
    tried = []
    while not tried or tried[-1] != arrays["index"][row]:
        tried.append(dataset_order(spec).substitute(0, position, bad, len(tried) + 1)[0])
    return len([number for number in tried[:-1] if number not in engine.bad])


def test_sizes_of_fields(dataset):
    ids = np.array([3, 0, 29, 3])
    sizes = dataset.sizes_of("image", ids)
    assert sizes.tolist() == [list(dataset.size("image", int(number))) for number in ids]
    assert dataset.sizes_of("words", ids).tolist() == [[3, 1], [0, 1], [4, 1], [3, 1]]
    with pytest.raises(
        UsageError, match=r"field 'label' has shape \(\) in every sample; use its schema"
    ):
        dataset.sizes_of("label", ids)
