"""FFCV's operations: their draws belong to rows, they run parallel, and what cannot is refused."""

import functools
import importlib
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest

from stoker.compat.ffcv.compiled_step import BatchRows, CompiledStep
from stoker.compat.ffcv.field_reading import array_state
from stoker.compat.ffcv.pipeline import Compiler
from stoker.protocol.errors import BuildError, SampleError
from stoker.rng.draws import integers, normal, uniform
from stoker.rng.streams import make_key, stream_key

sys.path.insert(0, str(Path(__file__).parent))
ffcv_ops = importlib.import_module("ffcv_ops")
sys.path.pop(0)

IMAGES = array_state((6, 8, 3), "uint8")
LABELS = array_state((1,), "int64")
ROWS = BatchRows(7, 2, np.array([40, 3, 17, 2**40, 5, 6, 9]))


def values(state):
    draw = np.random.default_rng(0)
    return draw.integers(0, 150, (len(ROWS.ids), *state.shape)).astype(state.dtype)


def run(operation, state=IMAGES, rows=ROWS):
    step = CompiledStep(operation, state, f"{type(operation).__name__} of field 'image'", "s")
    return step(values(state), rows)


def keys(rows=ROWS):
    return [make_key(rows.seed, stream_key("s"), int(number), rows.epoch) for number in rows.ids]


@functools.cache
def shift(how):
    """The operation, compiled once for all tests."""
    return CompiledStep(ffcv_ops.Shift(how), IMAGES, "Shift of field 'image'", "s")


@pytest.mark.parametrize("how", ["array", "loop"])
def test_each_row_draws_from_its_own_key(how):
    by = [integers(key, 0, 100) for key in keys()]
    assert len(set(by)) > 3
    expected = values(IMAGES) + np.array(by, np.uint8)[:, None, None, None]
    assert np.array_equal(shift(how)(values(IMAGES), ROWS), expected)


@pytest.mark.parametrize("how", ["array", "loop", "in place", "new"])
def test_interpreted_is_compiled(how, interpreted):
    assert Compiler.get_iterable() is range
    by = [integers(key, 0, 100) for key in keys()]
    expected = values(IMAGES) + np.array(by, np.uint8)[:, None, None, None]
    assert np.array_equal(run(ffcv_ops.Shift(how)), expected)


def expected_draws(key):
    u = [uniform(key, k) for k in range(14)]
    return [
        u[0], u[1], u[2], u[3], 2 + u[4] * 3, -1 + u[5] * 2, 10 + 2 * normal(key, 6),
        normal(key, 7), integers(key, 8, 7), 5 + integers(key, 9, 4), normal(key, 10),
        integers(key, 11, 5), [1.5, 2.5, 9.0][integers(key, 12, 3)], 3 if u[13] < 0.25 else 5,
    ]  # fmt: skip


def test_every_draw_is_one_of_the_rows_key():
    got = run(ffcv_ops.Draws(), LABELS)
    assert got.tolist() == [expected_draws(key) for key in keys()]


def expected_orders(key):
    """Fisher and Yates, by lists; then two choices."""
    k, orders = 0, [list(range(5)), list(range(10, 15))]
    for order in orders:
        for last in range(4, 0, -1):
            other = integers(key, k, last + 1)
            order[last], order[other] = order[other], order[last]
            k += 1
    return [*orders[0], *orders[1], integers(key, 8, 7), 3.0 if uniform(key, 9) < 0.5 else 4.0]


def test_orders_and_single_choices_belong_to_one_row():
    step = CompiledStep(ffcv_ops.Orders(), LABELS, "Orders of field 'label'", "s")
    got = step(values(LABELS), ROWS)
    assert got.tolist() == [expected_orders(key) for key in keys()]
    assert len({tuple(row) for row in got[:, :5].tolist()}) > 3
    one = ROWS._replace(ids=ROWS.ids[4:5])
    assert np.array_equal(step(values(LABELS)[4:5], one), got[4:5])


def test_orders_and_choices_interpreted_are_compiled(interpreted):
    assert run(ffcv_ops.Orders(), LABELS).tolist() == [expected_orders(key) for key in keys()]
    assert run(ffcv_ops.Draws(), LABELS).tolist() == [expected_draws(key) for key in keys()]


def test_rows_change_places(interpreted):
    got = run(ffcv_ops.Permutes())
    order, key = list(range(len(ROWS.ids))), keys()[0]
    for k, last in enumerate(range(len(order) - 1, 0, -1)):
        other = integers(key, k, last + 1)
        order[last], order[other] = order[other], order[last]
    assert order != sorted(order)
    assert np.array_equal(got, values(IMAGES)[order])


def seeded_numbers(rows=ROWS):
    """The first draw of each row's id, for any stream, seed and epoch."""
    stream = stream_key("np.random.seed")
    return [integers(make_key(0, stream, int(number), 0), 0, 1_000_000) for number in rows.ids]


def test_a_seed_from_the_sample_id_decides_the_draws_of_its_row():
    np.random.seed(5)
    before = np.random.get_state()[1].tobytes()
    step = CompiledStep(ffcv_ops.Seeded(), LABELS, "Seeded of field 'label'", "s")
    mask = CompiledStep(ffcv_ops.Seeded(), LABELS, "Seeded of field 'mask'", "another", alone=True)
    got = step(values(LABELS), ROWS)[:, 0].tolist()
    assert got == seeded_numbers()
    assert len(set(got)) == len(got)
    assert mask(values(LABELS), ROWS._replace(seed=8, epoch=9))[:, 0].tolist() == got
    some = ROWS._replace(ids=ROWS.ids[[5, 2]])
    assert step(values(LABELS)[[5, 2]], some)[:, 0].tolist() == [got[5], got[2]]
    assert np.random.get_state()[1].tobytes() == before


def test_helpers_draw_the_numbers_of_the_row_that_calls_them():
    got = run(ffcv_ops.Helper(), LABELS)
    assert got[:, 0].tolist() == [
        value + integers(key, 0, 5) + 10 * integers(key, 1, 5) + 100 * integers(key, 2, 5)
        for value, key in zip(values(LABELS)[:, 0].tolist(), keys(), strict=True)
    ]
    step = CompiledStep(ffcv_ops.Helper(), LABELS, "Helper of field 'label'", "s")
    some = ROWS._replace(ids=ROWS.ids[[4, 1]])
    assert np.array_equal(step(values(LABELS)[[4, 1]], some), got[[4, 1]])


def test_a_batch_op_that_draws_in_a_parallel_loop_draws_in_the_order_of_the_rows():
    got = run(ffcv_ops.DrawsInOrder(), LABELS)
    assert got[:, 0].tolist() == [integers(keys()[0], k, 10**6) for k in range(len(got))]


def test_a_seed_interpreted_is_compiled(interpreted):
    assert run(ffcv_ops.Seeded(), LABELS)[:, 0].tolist() == seeded_numbers()


def test_every_draw_interpreted(interpreted):
    got = run(ffcv_ops.Draws(), LABELS)
    assert got.tolist() == [expected_draws(key) for key in keys()]


def test_a_row_is_the_same_among_any_others_and_nothing_global_is_touched():
    np.random.seed(5)
    random.seed(5)
    before = np.random.get_state()[1].tobytes(), random.getstate()
    step = shift("array")
    whole = step(values(IMAGES), ROWS).copy()
    assert (np.random.get_state()[1].tobytes(), random.getstate()) == before
    np.random.seed(6)
    for chosen in ([6], [2, 0], [5, 4, 3, 2, 1, 0]):
        some = step(values(IMAGES)[chosen], ROWS._replace(ids=ROWS.ids[chosen]))
        assert np.array_equal(some, whole[chosen])


def test_the_guides_operation_serial_and_parallel(guide, monkeypatch):
    serial = run(guide.PickACorner())
    monkeypatch.setattr(Compiler, "_enabled", False)
    assert np.array_equal(serial, run(guide.PickACornerParallel()))
    for image, key, got in zip(values(IMAGES), keys(), serial, strict=True):
        first = integers(key, 0, 4) == 0
        assert np.array_equal(got, image[:3, :4] if first else image[3:, 4:])


@pytest.mark.skipif(numba.get_num_threads() < 2, reason="one core")
def test_a_closed_over_prange_runs_on_more_than_one_core():
    threads = run(ffcv_ops.Threads(len(ROWS.ids)), LABELS)
    assert 2 <= threads.min() == threads.max() <= min(numba.get_num_threads(), len(ROWS.ids))


def test_ids_are_handed_over():
    assert run(ffcv_ops.Ids(), LABELS)[:, 0].tolist() == ROWS.ids.tolist()


def test_assignments_to_items(monkeypatch):
    fast = run(ffcv_ops.Assigns())
    monkeypatch.setattr(Compiler, "_enabled", False)
    assert np.array_equal(run(ffcv_ops.Assigns()), fast)
    images = values(IMAGES)
    assert np.array_equal(fast[:, 0], images)
    assert np.array_equal(fast[:, 1], images[:, :, ::-1])
    assert np.array_equal(fast[:, 2], images[:, ::-1])
    assert fast[:, 7, 2, 3, 1].tolist() == [9] * len(images)


def test_several_memories():
    assert np.array_equal(run(ffcv_ops.Two()), values(IMAGES) + 1)


def test_integer_arithmetic_that_numba_accepts_is_not_refused():
    first = values(IMAGES)[:, :, :1, :1].astype(np.int64)
    expected = np.broadcast_to((first * 300 - 7).astype(np.uint8), (7, 6, 8, 3))
    assert np.array_equal(run(ffcv_ops.Wraps()), expected)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_operation_that_ends_the_program_on_real_data_is_an_error(interpreted, error):
    """Machine code cannot: numba compiles neither of the two."""
    step = CompiledStep(ffcv_ops.LeavesLater(error), IMAGES, "LeavesLater of field 'image'", "s")
    bad = values(IMAGES)
    bad[0, 0, 0, :2] = 77, 78
    with ThreadPoolExecutor(1) as threads:  # as the loader does: Ctrl-C never comes here
        with pytest.raises(SampleError) as caught:
            threads.submit(step, bad, ROWS).result()
        assert threads.submit(step, values(IMAGES), ROWS).result().shape == (7, 6, 8, 3)
    told = rf"LeavesLater of field 'image' raised {error.__name__}: 4 \(.*ffcv_ops.py:\d+\), on "
    assert re.match(
        told + r"samples 40, 3, 17, 1099511627776, 5, 6, 9, epoch 2\. ", str(caught.value)
    )


def test_ctrl_c_in_an_operation_reaches_the_script(interpreted):
    step = CompiledStep(ffcv_ops.LeavesLater(KeyboardInterrupt), IMAGES, "LeavesLater", "s")
    bad = values(IMAGES)
    bad[0, 0, 0, :2] = 77, 78
    with pytest.raises(KeyboardInterrupt):
        step(bad, ROWS)


def test_an_operation_that_denies_that_it_mixes_rows_is_refused(interpreted):
    assert np.array_equal(run(ffcv_ops.DeclaredMean()), run(ffcv_ops.Mean()))
    with pytest.raises(BuildError) as caught:
        run(ffcv_ops.DeniedMean())
    assert str(caught.value) == (
        "DeniedMean of field 'image' cannot be used: its result for a row depends on the other "
        "rows of the batch, but its class has is_batch_op = False. Read only row i for row i; or "
        "remove is_batch_op"
    )


def test_odd_sizes_where_the_guides_code_fails(guide):
    odd = array_state((33, 32, 3), "uint8")
    with pytest.raises(BuildError) as caught:
        run(guide.PickACorner(), odd)
    message = str(caught.value)
    assert message.startswith(f"{guide.__file__}:")
    assert (
        "PickACorner of field 'image' fails on NumPy uint8 of shape (33, 32, 3): ValueError: could "
        "not broadcast input array from shape (17,16,3) into shape (16,16,3)"
    ) in message
    assert "-n // 2 is -(n // 2) - 1 if n is odd" in message


@pytest.mark.parametrize("machine", [pytest.param(True, marks=pytest.mark.slow), False])
def test_results_of_another_form_than_declared_are_taken_as_they_are(monkeypatch, machine):
    """As FFCV does; the next operation gets their state too."""
    monkeypatch.setattr(Compiler, "_enabled", machine)
    given = values(IMAGES)
    found = [("LiesInALoop", given[:, ::-1, :, 0] * 2.0)]
    if not machine:
        found.append(("Lies", given[..., 0].astype(np.float32) / np.float32(2)))
    for name, expected in found:
        step = CompiledStep(getattr(ffcv_ops, name)(), IMAGES, name, "s")
        got = step(given.copy(), ROWS)
        assert (got.dtype, got.shape) == (step.after.dtype, expected.shape)
        assert got.dtype.kind == "f"
        assert np.array_equal(got, expected)
