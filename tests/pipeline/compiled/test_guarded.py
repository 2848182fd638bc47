"""The guarded engine: the bytes of the others, and every op that leaves its memory is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from stoker.jit import kernel
from stoker.ops._testing.painted import MARGIN, PaintedMemory
from stoker.ops.contract.kernel_forms import Kernel, no_draw
from stoker.ops.contract.op import Op
from stoker.ops.contract.registry import register, registered
from stoker.ops.contract.states import State
from stoker.ops.kernels.points import stay
from stoker.pipeline import Row, pipeline
from stoker.pipeline.compiled.guarded import Guarded
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError
from stoker.protocol.item_fields import ItemField
from stoker.protocol.ragged import pack_items

NOTHING, AFTER, BEFORE, SCRATCH, SOURCE, UNWRITTEN, UNDEFINED, PARAMS = range(8)


@kernel
def stray_run(src, dst, params, record, scratch):
    s, d = src.reshape(src.size), dst.reshape(dst.size)
    wrong = params["wrong"]
    for i in range(d.size - (wrong == UNWRITTEN)):
        d[i] = s[i]
    if wrong == AFTER:
        d[d.size + 4] = 1
    if wrong == BEFORE:
        d[-d.size - 3] = 1
    if wrong == SCRATCH:
        scratch[scratch.size] = 1
    if wrong == SOURCE:
        s[7] += 1
    if wrong == UNDEFINED:
        d[0] = scratch[0]
    if wrong == PARAMS:
        params["wrong"] = PARAMS + 1


@kernel
def stray_draw(key, params, height, width, record):
    record["first"] = height
    if params["wrong"] == NOTHING:
        record["second"] = width


@dataclass(frozen=True)
class Stray(Op):
    """Copies an image, and does one thing that no kernel may do."""

    name: ClassVar[str] = "stray"
    parameters: ClassVar[np.dtype] = np.dtype([("wrong", "i8")])
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(stray_run, stray_run)}
    draw: ClassVar[Any] = staticmethod(no_draw)
    wrong: int = NOTHING

    def params(self) -> np.ndarray:
        return np.array((self.wrong,), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        return states, 16


@dataclass(frozen=True)
class StrayDraw(Stray):
    name: ClassVar[str] = "stray_draw"
    record: ClassVar[np.dtype] = np.dtype([("first", "i8"), ("second", "i8")])
    draw: ClassVar[Any] = staticmethod(stray_draw)


@pytest.fixture(scope="module")
def engine_of():
    for op in (Stray, StrayDraw):
        if op.name not in registered():
            register(op)

    def make(op: Op) -> Guarded:
        states = {"image": State.fixed("image", "uint8", (6, 9, 3))}
        return Guarded(bind(pipeline(lambda s: {"image": op(s.image)}).graph(), states))

    return make


IMAGE = np.arange(6 * 9 * 3, dtype=np.uint8).reshape(6, 9, 3)


@pytest.mark.parametrize("op", [Stray, StrayDraw])
def test_an_op_that_keeps_its_memory_passes(op, engine_of):
    out = np.zeros_like(IMAGE)
    engine_of(op()).run(Row(1, 2, 3), [IMAGE], [out])
    assert np.array_equal(out, IMAGE)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (Stray(AFTER), "image kernel .* wrote at offset 166 of its destination, which has 162 "),
        (Stray(BEFORE), "image kernel .* wrote 3 bytes before the start of its destination, at"),
        (Stray(SCRATCH), "image kernel .* wrote at offset 16 of its scratch, which has 16 bytes"),
        (Stray(SOURCE), "image kernel .* changed its source, at"),
        (
            Stray(UNWRITTEN),
            "image kernel .* gave different results .* in 1 of 162 elements: it reads",
        ),
        (
            Stray(UNDEFINED),
            "image kernel .* gave different results .* in 1 of 162 elements: it reads",
        ),
        (Stray(PARAMS), "image kernel .* changed its parameters or its record, at"),
        (StrayDraw(AFTER), "draw .* did not write all of its record: field 'second' keeps its old"),
    ],
)
def test_an_op_that_leaves_its_memory_is_named(op, message, engine_of):
    with pytest.raises(BuildError, match=message) as caught:
        engine_of(op).run(Row(11, 22, 33), [IMAGE], [np.zeros_like(IMAGE)])
    assert f"test_guarded.py:{engine_of.__code__.co_firstlineno + 2}: op {op.name!r}: its" in str(
        caught.value
    )
    assert "at sample 22, epoch 33, seed 11. Correct the op" in str(caught.value)
    details = caught.value.details
    assert (details["op"], details["id"], details["epoch"]) == (op.name, 22, 33)


@kernel
def draw_on(key, params, height, width, record, items):
    record["first"], record["second"] = height, width
    items[0, 0] = 0


@dataclass(frozen=True)
class DrawsOnItsBoxes(Stray):
    name: ClassVar[str] = "draws_on_its_boxes"
    record: ClassVar[np.dtype] = StrayDraw.record
    draws_from: ClassVar[str] = "boxes"
    draw: ClassVar[Any] = staticmethod(draw_on)
    forward: ClassVar[Any] = staticmethod(stay)


def test_a_draw_that_changes_what_it_looks_at_is_named():
    fields = (ItemField("xyxy", "float32", 4),)
    states = {
        "image": State.fixed("image", "uint8", (6, 9, 3)),
        "boxes": State.ragged("boxes", fields, 4, "image"),
    }
    graph = pipeline(lambda s: {"image": DrawsOnItsBoxes()(s.image, s.boxes)[0]}).graph()
    boxes = pack_items(fields, {"xyxy": np.array([[1, 2, 3, 4]], np.float32)})
    with pytest.raises(BuildError, match=r"its draw .* changed the items it reads, at sample 2"):
        Guarded(bind(graph, states)).run(Row(1, 2, 3), [IMAGE, boxes], [np.zeros_like(IMAGE)])


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1000])
def test_margins_see_every_byte_next_to_the_memory(size):
    memory = PaintedMemory.painted("place", size, 0xA5)
    start = memory.start
    assert (memory.whole.ctypes.data + start) % 64 == 0
    assert memory.inner.size == size
    assert memory.fault() is None
    memory.inner[:] = 0
    assert memory.fault() is None
    for offset in (-MARGIN, -1, size, size + MARGIN - 1):
        memory.whole[start + offset] += 1
        where = "before the start" if offset < 0 else f"at offset {offset} of its place"
        assert where in memory.fault()
        memory.whole[start + offset] -= 1


def test_bytes_and_records_are_the_interpreters(toys, varied, photo, rows):
    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=40)
        if sample.label > 2:
            image, mask = toys.flip(image, mask)
        return {"image": toys.scale(toys.shift(image)), "mask": mask, "label": sample.label}

    plan = bind(train.graph(), varied)
    engines = Guarded(plan), Interpreter(plan)
    inputs = {"image": photo[0], "mask": photo[1]}
    for row in rows:
        inputs["label"] = np.int64(row.id % 5)
        got, expected = ([np.zeros(o.shape, o.dtype) for o in plan.outputs] for _ in range(2))
        for engine, outputs in zip(engines, (got, expected), strict=True):
            engine.run(row, [inputs[name] for name in plan.fields], outputs)
        assert [a.tobytes() for a in got] == [b.tobytes() for b in expected]
        assert engines[0].records() == engines[1].records()
