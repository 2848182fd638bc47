"""Folds: the contract for each, exact sums against NumPy, and what is refused."""

import hashlib
import json
import os
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from kept_code import Kept
from machine_code import violations
from numba import int32, uint8
from scipy import stats

from stoker import ops
from stoker.jit import compiled, kernel
from stoker.jit.arithmetic import PLAIN
from stoker.ops import ParameterError, State, StateError
from stoker.ops._testing.runner import ContractError
from stoker.ops.bases.folds import Fold
from stoker.ops.bases.mixing import MOST, add_mix, begin_mix, end_mix, plain_mix
from stoker.ops.contract.examples import examples_of
from stoker.ops.contract.kernel_forms import FoldKernel
from stoker.ops.contract.registry import choices, folds, registered
from stoker.ops.testing import check_op
from stoker.pipeline.compiled.warm_kernels import op_calls

EXAMPLES = {name: examples_of(cls) for name, cls in folds().items()}


def test_folds_are_neither_ops_nor_choices():
    assert not folds().keys() & (registered().keys() | choices().keys())


@pytest.mark.parametrize(
    "op", [ops.make(name, params) for name, some in EXAMPLES.items() for params in some], ids=str
)
def test_contract(op):
    check_op(op, rows=6)


def image_of(shape, seed=0, dtype="uint8"):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(dtype)


def test_weights_are_whole_and_near():
    """Exact fractions as reference: integers of sum 2**16, each within one of its share."""
    rng = np.random.default_rng(1)
    for trial in range(300):
        count = int(rng.integers(2, MOST + 1))
        weights = [float(w) for w in rng.choice([0.0, 1.0, 1e-3, 7.25, 3e9], count)]
        weights[trial % count] = 1.0
        units = ops.Blend(tuple(weights)).params()["weights"]
        total = sum(map(Fraction, weights))
        assert units.sum() == 65536
        assert (units[count:] == 0).all()
        for unit, weight in zip(units.tolist(), weights, strict=False):
            assert abs(unit - Fraction(weight) * 65536 / total) <= 1
            assert unit >= 0


def test_any_weights_stay_near_the_mean():
    rng = np.random.default_rng(3)
    for _ in range(40):
        count = int(rng.integers(2, 17))
        weights = rng.random(count) + 1e-9
        images = [image_of((9, 8, 3), int(seed)) for seed in rng.integers(0, 999, count)]
        got = np.zeros((9, 8, 3), np.uint8)
        plain_mix(images, got, ops.Blend(tuple(weights)).params()["weights"])
        mean = np.tensordot(weights / weights.sum(), np.array(images, np.float64), 1)
        assert np.abs(got - mean).max() <= 0.5 + 255 * count / 2**17


def test_a_mix_of_floats_is_numpys_mean():
    rng = np.random.default_rng(5)
    state = State.fixed("image", "float32", (9, 8, 3))
    for trial in range(30):
        count = int(rng.integers(2, 17))
        op = ops.Blend(tuple(rng.random(count) + 1e-9))
        images = [rng.normal(0, 2.0**trial, (9, 8, 3)).astype(np.float32) for _ in range(count)]
        (after,), need = op.declare((state,) * count)
        assert (after, need) == (state, 8 * 9 * 8 * 3)
        got = np.zeros((9, 8, 3), np.float32)
        op.fold_of("image", "float32").plain(images, got, op.params(), None)
        weights = op.params()["weights"][:count] / 65536
        mean = np.average(np.array(images, np.float64), 0, weights)
        assert np.abs(got - mean).max() <= 2.0**-23 * np.abs(images).max()
    both = [np.full((9, 8, 3), value, np.float32) for value in (-3.0, 5.0)]
    ops.Blend((1, 3)).fold_of("image", "float32").plain(both, got, ops.Blend((1, 3)).params(), None)
    assert (got == 3.0).all()


def test_drawn_weights_have_their_laws(run_op):
    for alpha in (0.3, 1.0, 5.0):
        op = ops.RandomBlend(4, alpha)
        records = [run_op.draw(op, key, 9, 9, arithmetic=PLAIN) for key in range(1500)]
        shares = np.array([record["shares"] for record in records])
        weights = np.array([record["weights"] for record in records])
        assert np.abs(shares.sum(1) - 1).max() < 1e-12
        assert (weights.sum(1) == 65536).all()
        assert np.abs(weights / 65536 - shares).max() <= 1 / 65536
        assert (weights >= 0).all()
        assert (shares[:, 4:] == 0).all()
        assert stats.kstest(shares[:, 0], stats.beta(alpha, alpha).cdf).pvalue > 1e-3
        rest = 1 - shares[:, 0]
        for other in (1, 2, 3):
            parts = shares[rest > 0, other] / rest[rest > 0]
            assert stats.kstest(parts, stats.beta(alpha, 2 * alpha).cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("kind", "dtype", "shape"),
    [
        ("image", "uint8", (6, 5, 3)),
        ("mask", "int32", (6, 5)),
        ("array", "float16", (3, 6, 5)),
        ("label", "int64", ()),
    ],
)
def test_a_stack_is_numpys(kind, dtype, shape):
    values = [image_of(shape or (1,), seed, dtype) for seed in range(3)]
    (after,), _ = ops.Stack().declare((State.fixed(kind, dtype, shape),) * 3)
    assert str(after) == str(State.fixed("array", dtype, (3, *shape)))
    dst = np.zeros((3, *shape), dtype)
    ops.Stack.folds[kind].plain(values, dst, None, None)
    assert np.array_equal(dst, np.stack(values).reshape(3, *shape))


def test_what_is_refused():
    image = State.fixed("image", "uint8", (8, 8, 3))
    other = State.fixed("image", "uint8", (8, 9, 3))
    mask = State.fixed("mask", "uint8", (8, 8))
    free = State("image", "uint8", (None, None, 3), (40, 40, 3))

    def refused(op, states, message):
        with pytest.raises(StateError, match=message):
            op.declare(states)

    refused(ops.Stack(), (image,), "expected 2 to 64 values in one call, got 1")
    refused(ops.Stack(), (image,) * 65, "expected 2 to 64 values in one call, got 65")
    refused(ops.Stack(), (image, other), r"one kind, dtype and shape, got .*8x8x3.* and .*8x9x3")
    refused(ops.Stack(), (image, mask), "one kind, dtype and shape")
    refused(ops.Stack(), (free, free), "stack needs values whose size is the same for every sample")
    refused(ops.Blend((1, 1)), (mask, mask), "blend has no rule for a mask")
    refused(ops.Blend((1, 1)), (image, other), "one kind, dtype and shape")
    refused(ops.Blend((1, 1, 1)), (image, image), "got 2 images and 3 weights")
    refused(ops.RandomBlend(3), (image, image), "was made for 3 images, got 2")
    floats = State.fixed("image", "float64", (8, 8, 3))
    refused(ops.Blend((1, 1)), (floats, floats), "Call blend before the image is converted")
    boxes = State.ragged("boxes", (), 4)
    refused(ops.Stack(), (boxes, boxes), "stack has no rule for boxes")
    for weights in ((), (1,), (1, -1), (1, float("nan")), "ab", (1,) * 17, None):
        with pytest.raises(ParameterError, match="weights to be 2 to 16 numbers"):
            ops.Blend(weights)
    with pytest.raises(ParameterError, match="weights to be not all 0"):
        ops.Blend((0, 0.0))
    for alpha in (0, -1, 1e9, float("nan"), "1"):
        with pytest.raises(ParameterError, match=r"alpha to be a number from 0\.001 to 1000"):
            ops.RandomBlend(2, alpha)
    with pytest.raises(ParameterError, match="count to be an integer from 2 to 16"):
        ops.RandomBlend(1)


@kernel
def _forgetful(src, place, count, dst, params, record, scratch):
    if place == 0:
        dst[0, 0, 0] = src[0, 0, 0]


def _plain(srcs, dst, params, record):
    dst[...] = srcs[0]


class Forgetful(Fold):
    """Writes one value alone."""

    name = "forgetful"
    folds = {"image": FoldKernel(_forgetful, _plain)}  # noqa: RUF012

    def declare(self, states):
        """Return the first."""
        self.require_alike(states)
        return states[:1], 0


def test_check_op_finds_what_a_fold_leaves_unwritten():
    with pytest.raises(ContractError, match="forgetful: the image fold gives other bytes"):
        check_op(Forgetful())


GOLDEN = Path(__file__).parents[1] / "golden" / "folds.json"


def golden(run_op):
    """Digests of what every example draws, and of what it makes of patterns."""
    found = []
    for name, choices_ in sorted(EXAMPLES.items()):
        for params in choices_:
            op = ops.make(name, params)
            count = len(params.get("weights", ())) or params.get("count", 3)
            images = [(np.arange(60 * 3 * 7, dtype=np.uint64) ** 2 >> np.uint64(s)) % 256
                      for s in range(count)]  # fmt: skip
            values = [image.astype(np.uint8).reshape(20, 21, 3) for image in images]
            total = hashlib.blake2b(digest_size=16)
            for key in range(16):
                record = run_op.draw(op, key, 20, 21)
                total.update(record.tobytes())
                states, _ = op.declare((State.fixed("image", "uint8", (20, 21, 3)),) * count)
                dst = np.zeros(states[0].bound, np.uint8)
                op.folds["image"].plain(values, dst, op.params(), record)
                total.update(dst.tobytes())
            found.append({"op": name, "params": params, "version": op.version,
                          "digest": total.hexdigest()})  # fmt: skip
    return json.loads(json.dumps(found))


def test_golden_folds(run_op):
    """As tests/ops/test_golden.py: a difference is a changed contract."""
    found = golden(run_op)
    if os.environ.get("STOKER_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    assert json.loads(GOLDEN.read_text()) == found


def test_no_fold_calls_libm_or_allocates_and_mixes_are_vectors():
    calls = dict.fromkeys(op_calls(folds().values()))
    assert len(calls) >= 6
    for fn, types in calls:
        fast = compiled(fn)
        fast.compile(types)
        assert violations(Kept(fast)) == [], fn
    flat, sums = uint8[::1], int32[::1]
    for fn, types in (
        (begin_mix, (flat, int32, sums)),
        (add_mix, (flat, int32, sums)),
        (end_mix, (flat, int32, sums, flat)),
    ):
        fast = compiled(fn)
        fast.compile(types)
        text = Kept(fast).inspect_llvm()[types]
        assert re.search(r"<\d+ x i32>", text), f"{fn.__name__} is scalar"
