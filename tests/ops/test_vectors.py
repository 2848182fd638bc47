"""Flow and normals: their components follow the pixels, for every op with an affine map.

Truth is pixels: two masks number the same points of a scene, the second one shifted by the flow.
The effect of an op on both masks defines the flow afterwards. Golden hashes of the results are
frozen in tests/golden/vectors.json:

    STOKER_WRITE_GOLDEN=1 python -m pytest tests/ops/test_vectors.py
"""

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import ClassVar

import cv2
import msgspec
import numpy as np
import pytest

from stoker import ops
from stoker.dataset import schema
from stoker.dataset.format.field_checks import check_schema
from stoker.jit import compiled
from stoker.ops import Kernel, Op, State, make, registered
from stoker.ops._testing.check_items import FIRST, decide
from stoker.ops.contract.vector_fields import unfilled
from stoker.ops.kernels.points import stay
from stoker.ops.kernels.vectors import TURNERS
from stoker.pipeline import Row, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.plain.replay_row import replay
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, UsageError

GOLDEN = Path(__file__).parents[1] / "golden" / "vectors.json"
SIZE = (72, 96)
COUNTS = {"flow": 2, "normals": 3}
STATES = {
    "image": State.fixed("image", "uint8", (*SIZE, 3)),
    "mask": State.fixed("mask", "int32", SIZE),
    **{kind: State.fixed(kind, "float32", (*SIZE, count)) for kind, count in COUNTS.items()},
}
KINDS = {"flow": "flow", "normals": "normals"}


def field(kind, seed=0, size=SIZE):
    noise = np.random.default_rng(seed)
    made = noise.normal(size=(*size, COUNTS[kind])).astype(np.float32)
    return made / np.linalg.norm(made, axis=2, keepdims=True) if kind == "normals" else made


def follows(op: Op) -> bool:
    return op.affine and op.forward is not None


def moved(op, kind, key=0, size=SIZE):
    """A field after an example of an op, by its parts: kernel, map, and turned components."""
    own = unfilled(op)
    params, record, sizes = decide(own, size, key)
    (after,), _ = own.declare((State.fixed("image", "float32", (*size, COUNTS[kind])),))
    out = np.zeros((*sizes[2:], *after.shape[2:]), np.float32)
    given = field(kind, key, size)
    own.kernel_of("image", "float32").plain(given, out, params, record, None)
    turned = np.zeros_like(out)
    TURNERS[kind].plain(out, turned, own.forward(params, record, sizes))
    return turned


def test_an_op_is_affine_if_its_map_is(every_example):
    """A map that is projective would be followed by its linear part, which is wrong."""
    still = {"erase", "coarse_dropout", "grid_mask", "perspective"}
    for op in every_example:
        if op.forward is None:
            continue
        for key in range(8):
            numbers = op.forward(*decide(op, SIZE, key))
            projective = tuple(numbers[6:8]) != (0.0, 0.0) or numbers[8] <= 0.0
            assert not (projective and op.affine), op
        assert op.affine == (op.name not in still), op


def fitted(mask, of_scene):
    """The affine map, (3, 2), from the scene to pixels that fits a mask best; and a seen point."""
    inside = (mask >= FIRST) & of_scene[mask - FIRST]
    rows, columns = np.divmod(mask[inside] - FIRST, SIZE[1])
    y, x = np.nonzero(inside)
    points = np.stack([columns + 0.5, rows + 0.5, np.ones(len(rows))], 1)
    if np.linalg.matrix_rank(points) < 3:
        return None
    places = np.stack([x + 0.5, y + 0.5], 1)
    return np.linalg.lstsq(points, places, rcond=None)[0], points.mean(0)


RIGHT, DOWN = 9, -6


def test_flow_still_leads_to_the_same_point(example, run_op):
    """The second mask has a point of the first one where the flow leads."""
    reflects = getattr(example, "mode", "") == "reflect"
    if not follows(example) or example.draws_from or reflects:
        return
    numbers = np.arange(FIRST, FIRST + SIZE[0] * SIZE[1], dtype=np.int32).reshape(SIZE)
    shifted = np.roll(numbers, (DOWN, RIGHT), (0, 1))
    there = np.zeros(SIZE, bool)
    there[12:-12, 12:-12] = True  # the rest of the second mask came around its edge
    given = np.broadcast_to(np.float32([RIGHT, DOWN]), (*SIZE, 2)).copy()
    compared = 0
    for key in range(4):
        params, record, sizes = decide(example, SIZE, key)
        flow = np.zeros_like(given)
        TURNERS["flow"].plain(given, flow, example.forward(params, record, sizes))
        maps = [
            fitted(run_op(example, [("mask", mask)], record=record).outputs[0], there.ravel())
            for mask in (numbers, shifted)
        ]
        if all(maps):
            (before, seen), (after, _) = maps
            error = np.abs(seen @ (after - before) - flow[0, 0]).max()
            assert error < 0.6, (seen @ (after - before), flow[0, 0])
            compared += 1
    assert compared or example.name == "corner_crop"  # 9 rows at the edge have no inner point


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_normals_turn_with_their_surface(turns):
    """Of numpy.rot90, which turns against the clock: right becomes up, which is minus y."""
    given = field("normals")

    @pipeline
    def turned(sample):
        return {"normals": ops.rot90(sample.normals, turns=turns, p=1.0)}

    x, y, z = np.moveaxis(np.rot90(given, turns), 2, 0)
    expected = [(x, y), (y, -x), (-x, -y), (-y, x)][turns]
    found = turned({"normals": given}, kinds={"normals": "normals"})
    assert np.array_equal(found["normals"], np.stack([*expected, z], 2))


def test_normals_are_turned_by_a_rotation_and_not_scaled():
    """The matrix is OpenCV's; a constant field shows the components alone."""
    given = np.broadcast_to(np.float32([0.6, 0.0, 0.8]), (*SIZE, 3)).copy()

    @pipeline
    def rotated(sample):
        normals, flow = ops.affine(sample.normals, sample.flow, degrees=(25, 25), scale=(1.5, 1.5))
        return {"normals": normals, "flow": flow}

    fields = {"normals": given, "flow": np.ascontiguousarray(given[..., :2])}
    found = rotated(fields, kinds=KINDS)
    clockwise = cv2.getRotationMatrix2D((0, 0), -25, 1.0)[:, :2]
    middle = found["normals"][SIZE[0] // 2, SIZE[1] // 2]
    assert np.allclose(middle, [*(clockwise @ [0.6, 0.0]), 0.8], atol=1e-6)
    middle = found["flow"][SIZE[0] // 2, SIZE[1] // 2]
    assert np.allclose(middle, 1.5 * clockwise @ [0.6, 0.0], atol=1e-6)


def test_flow_is_measured_in_the_pixels_of_its_size():
    given = field("flow")

    @pipeline
    def small(sample):
        flow, normals = ops.resize(sample.flow, sample.normals, size=(36, 24))
        return {"flow": flow, "normals": normals}

    found = small({"flow": given, "normals": field("normals")}, kinds=KINDS)
    image = pipeline(lambda s: {"out": ops.resize(s.image, size=(36, 24))})
    resized = image({"image": given}, kinds={"image": "image"})["out"]
    assert np.allclose(found["flow"], resized * [24 / 96, 36 / 72], rtol=1e-6)
    resized = image({"image": field("normals")}, kinds={"image": "image"})["out"]
    assert np.array_equal(found["normals"], resized)


def test_infinity_and_nan_stay_in_their_component():
    given = np.zeros((*SIZE, 2), np.float32)
    given[..., 0], given[0, :, 0], given[1, :, 1] = 3, np.inf, np.nan

    @pipeline
    def flipped(sample):
        return {"flow": ops.horizontal_flip(sample.flow, p=1.0)}

    found = flipped({"flow": given}, kinds={"flow": "flow"})["flow"]
    assert (found[0] == [-np.inf, 0]).all()
    assert (found[2:] == [-3, 0]).all()
    assert (found[1, :, 1].view(np.uint32) == 0x7FC00000).all()
    assert (found[1, :, 0] == -3).all()


@pytest.mark.slow
def test_both_engines_give_the_same_bytes():
    """Chains of ops with any fill, at two sizes, in branches and padded."""

    @pipeline
    def train(sample):
        image, flow, normals = ops.random_crop(
            sample.image, sample.flow, sample.normals, size=60, padding=9, fill=(9, 8, 7)
        )
        image, flow, normals = ops.rotate(image, flow, normals, degrees=40, fill=114)
        if image.mean() > 100:
            image, flow, normals = ops.rot90(image, flow, normals)
            image, flow, normals = ops.transpose(image, flow, normals)
        image, flow, normals = ops.letterbox(image, flow, normals, size=(50, 70), fill=3)
        return {
            "image": image,
            "flow": ops.layout(flow),
            "normals": ops.cast(normals, dtype="float16"),
        }

    @pipeline
    def relative(sample):
        image, flow = ops.zoom_out(sample.image, sample.half, fill=114, p=1.0, relative=True)
        image, flow = ops.random_resized_crop(image, flow, size=40, relative=True)
        return {"image": image, "flow": flow}

    half = State.fixed("flow", "float32", (SIZE[0] // 2, SIZE[1] // 2, 2))
    noise = np.random.default_rng(5)
    given = {
        "image": noise.integers(0, 255, (*SIZE, 3)).astype(np.uint8),
        "flow": field("flow"), "normals": field("normals"),
        "half": field("flow", 1, half.shape[:2]),
    }  # fmt: skip
    for define in (train, relative):
        plan = bind(define.graph(), {**STATES, "half": half})
        fast, slow = compile_plan(plan), Interpreter(plan)
        for number in range(6):
            made = [[np.full(o.shape, 9, o.dtype) for o in plan.outputs] for _ in range(2)]
            for engine, into in zip((fast, slow), made, strict=True):
                engine.run(Row(seed=4, id=number, epoch=0), [given[n] for n in plan.fields], into)
            assert [one.tobytes() for one in made[0]] == [one.tobytes() for one in made[1]]
        assert np.abs(np.float32(made[0][1])).max() < 64  # no fill of an image is in a field


def test_a_replay_has_one_result_for_a_field():
    def flipped(sample):
        image, flow = ops.pad(sample.image, sample.flow, padding=2, fill=9)
        image, flow = ops.horizontal_flip(image, flow, p=1.0)
        return {"image": image, "flow": flow}

    plan = bind(pipeline(flipped).graph(), STATES)
    given = {"image": np.zeros((*SIZE, 3), np.uint8), "flow": field("flow")}
    found = replay(plan, Row(seed=1, id=2, epoch=0), [given[name] for name in plan.fields])
    assert [step.op for step in found.steps] == ["pad", "horizontal_flip"]
    assert [[value.name for value in step.values] for step in found.steps] == [
        ["image", "flow"]
    ] * 2
    made = found.steps[1].values[1]
    assert made.kind == "flow"
    expected = np.pad(given["flow"], ((2, 2), (2, 2), (0, 0)))[:, ::-1] * np.float32([-1, 1])
    assert np.array_equal(made.array, expected)


@pytest.mark.slow
def test_compiled_components_are_those_of_numpy():
    odd = np.float32([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, 3e38, 1e-45])
    x, y = np.meshgrid(odd, odd)
    maps = [
        (1, 0, 5, 0, 1, 7),
        (0, -2, 5, 3, 0, 7),
        (0.3, 1.7, 0, -2.5, 0.1, 0),
        (0, 0, 0, 0, 0, 0),
    ]
    for kind, count in COUNTS.items():
        given = np.stack([x, y, x][:count], 2)
        for a, b, c, d, e, f in maps:
            numbers = tuple(map(float, (a, b, c, d, e, f, 0, 0, 2)))
            fast, slow = np.zeros_like(given), np.zeros_like(given)
            compiled(TURNERS[kind].run)(given, fast, numbers)
            TURNERS[kind].plain(given, slow, numbers)
            assert fast.tobytes() == slow.tobytes(), (kind, numbers)


REFUSED = {
    "elastic": ops.Elastic(), "grid_distortion": ops.GridDistortion(),
    "optical_distortion": ops.OpticalDistortion(), "perspective": ops.Perspective(),
    "erase": ops.Erase(), "normalize": ops.Normalize(), "brightness": ops.Brightness(),
    "mixup": ops.Mixup(), "cutmix": ops.Cutmix(), "stack": ops.Stack(),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(COUNTS))
@pytest.mark.parametrize("name", list(REFUSED))
def test_ops_without_a_rule_refuse_vectors_by_name(name, kind):
    with pytest.raises(BuildError, match=rf"{name} .*{kind}") as caught:
        bind(pipeline(lambda s: {"out": REFUSED[name](s[kind])}).graph(), STATES)
    assert "test_vectors.py:" in str(caught.value)


def test_every_other_op_has_no_rule_for_vectors():
    """No op passes on a vector field as if its components were levels."""
    for name, cls in registered().items():
        if cls.affine:
            continue
        assert not set(COUNTS) & set(cls.kinds()), name


def test_parameters_that_vectors_cannot_follow_are_refused():
    def fault(define):
        with pytest.raises(BuildError) as caught:
            bind(pipeline(define).graph(), STATES)
        return str(caught.value)

    said = fault(lambda s: {"n": ops.affine(s.normals, degrees=5, shear=3)})
    assert "affine has no rule for normals" in said
    assert "Use affine without shear" in said
    said = fault(lambda s: {"f": ops.pad(s.flow, padding=5, mode="reflect")})
    assert "pad has no rule for flow" in said
    assert "mode='constant' or 'edge'" in said
    bind(pipeline(lambda s: {"f": ops.affine(s.flow, degrees=5, shear=3)}).graph(), STATES)
    bind(pipeline(lambda s: {"f": ops.pad(s.flow, padding=5, mode="edge")}).graph(), STATES)

    def scheduled(sample, ctx):
        image, flow = ops.rotate(sample.image, sample.flow, degrees=9 * ctx.progress, fill=114)
        return {"image": image, "flow": flow}

    assert "give fill=0" in fault(scheduled)


def test_a_schedule_turns_flow_too():
    @pipeline
    def train(sample, ctx):
        return {"flow": ops.rotate(sample.flow, degrees=(90 * ctx.progress, 90 * ctx.progress))}

    given = np.broadcast_to(np.float32([1, 0]), (*SIZE, 2)).copy()
    for progress, expected in ((0.0, (1, 0)), (0.5, (0.5**0.5, -(0.5**0.5))), (0.999999, (0, -1))):
        row = train({"flow": given}, kinds={"flow": "flow"}, progress=progress)
        middle = row["flow"][SIZE[0] // 2, SIZE[1] // 2]
        assert np.allclose(middle, expected, atol=1e-3), progress


def test_flow_that_missed_a_flip_is_refused():
    def missed(sample):
        image = ops.horizontal_flip(sample.image)
        return {"image": image, "flow": sample.flow}

    with pytest.raises(BuildError, match="horizontal_flip moves output 'image', but not output 'f"):
        bind(pipeline(missed).graph(), STATES)

    def smaller(sample):
        image, flow = ops.horizontal_flip(sample.image, sample.flow)
        image, flow = ops.resize(image, size=SIZE), ops.resize(flow, size=(18, 24))
        return {"image": image, "flow": flow}

    bind(pipeline(smaller).graph(), STATES)


@dataclasses.dataclass(frozen=True)
class OneChannel(Op):
    """Claims to be affine, and would give a field without its second component."""

    name: ClassVar[str] = "one_channel"
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(stay, stay)}
    forward = staticmethod(stay)
    affine: ClassVar[bool] = True

    def declare(self, states):
        return (State.fixed("image", "float32", (*SIZE, 1)),), 0


def bound(op):
    """Bind a pipeline whose op drops a component: turning the others would read beyond a pixel."""
    return bind(pipeline(lambda s: {"out": op(s.flow)}).graph(), STATES)


def checked(**change):
    """Check a schema with one field of normals that has other properties."""
    check_schema(schema.Schema((msgspec.structs.replace(schema.normals(), **change),)))


def flipped(kind, shape, dtype):
    """Flip a field in process."""
    define = pipeline(lambda s: {"out": ops.horizontal_flip(s.out, p=1.0)})
    return define({"out": np.zeros(shape, dtype)}, kinds={"out": kind})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: checked(dtype="uint8"), UsageError, "field 'normals': expected"),
        (lambda: checked(shape=(None, None, 2)), UsageError, "field 'normals': expected"),
        (lambda: checked(vectors="flow"), UsageError, "field 'normals': expected"),
        (lambda: checked(vectors="no"), UsageError, "field 'normals': expected"),
        (lambda: flipped("flow", (8, 9, 3), "f4"), UsageError, "a flow is float32 of (H, W, 2)"),
        (lambda: flipped("flow", (8, 9, 2), "f8"), UsageError, "a flow is float32 of (H, W, 2)"),
        (lambda: flipped("normals", (8, 9), "f4"), UsageError, "normals is float32 of (H, W, 3)"),
        (lambda: bound(OneChannel()), BuildError, "flow stays float32 with 2 components"),
    ],
)
def test_what_is_not_a_field_of_vectors(call, error, message):
    checked()
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


def test_golden(examples):
    found = {}
    for name, cls in sorted(registered().items()):
        if cls.affine and cls.forward is not None and cls.__module__.startswith("stoker."):
            for kind in COUNTS:
                total = hashlib.blake2b(digest_size=16)
                for params in examples[name]:
                    op = make(name, params)
                    if op.vector_fault(kind) is None:
                        for key in range(3):
                            total.update(moved(op, kind, key).tobytes())
                found[f"{name} {kind}"] = total.hexdigest()
    if os.environ.get("STOKER_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    assert json.loads(GOLDEN.read_text()) == found
