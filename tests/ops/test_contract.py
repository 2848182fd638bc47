"""The op contract, held for every registered op by what the registry says of it."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python as nrt

from stoker.jit import compiled
from stoker.jit.arithmetic import PLAIN
from stoker.ops import Op, State, StateError, make, registered
from stoker.ops.contract.kernel_forms import no_draw
from stoker.ops.contract.rules import ANY_CHANNELS
from stoker.ops.contract.states import storage
from stoker.ops.testing import check_op
from stoker.rng.streams import machine_key, make_key, stream_key

SIZES = [(1, 1), (1, 9), (8, 1), (2, 3), (17, 13), (33, 64), (65, 31), (49, 97)]


def accepts(op: Op, dtype: str, channels: int) -> bool:
    try:
        op.declare((State.fixed("image", dtype, (8, 8, channels)),))
    except StateError:
        return False
    return True


def dtype_of(op: Op) -> str:
    """Dtype of images that an op is tried on first."""
    return "uint8" if any(accepts(op, "uint8", c) for c in (1, 2, 3, 4)) else "float32"


def channels_of(op: Op, dtype: str = "") -> list[int]:
    """Channel counts that an op's parameters allow; an op without images takes any."""
    if "image" not in op.kernels:
        return [3]
    return [c for c in (1, 2, 3, 4) if accepts(op, dtype or dtype_of(op), c)]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
def test_an_op_declares_the_dtypes_of_images_that_it_takes(examples, dtype):
    of_images = {name: cls for name, cls in registered().items() if "image" in cls.kernels}
    taken = {n for n in of_images if any(channels_of(make(n, p), dtype) for p in examples[n])}
    assert taken == {name for name, cls in of_images.items() if dtype in cls.image_dtypes}


def test_an_op_declares_the_channels_of_images_that_it_takes(every_example):
    for op in every_example:
        lists = [getattr(op, name, 0) for name in ("fill", "mean", "std")]
        if "image" in op.kernels and not any(isinstance(v, tuple) and len(v) > 1 for v in lists):
            taken = [c for c in ANY_CHANNELS if accepts(op, dtype_of(op), c)]
            assert taken == list(op.image_channels), op


def test_every_op_has_examples(examples):
    assert set(examples) == set(registered())


def test_no_op_file_is_forgotten():
    """An op that `stoker.ops` does not list is registered without use, and not tested."""
    command = [sys.executable, str(Path(__file__).parents[2] / "tools/op_lists.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_ops_imports_no_numba(loaded_by):
    assert loaded_by("import stoker.ops", "numba", "llvmlite", "torch") == set()


FILES = ("stoker.ops.geometry.rotate", "stoker.ops.filters.defocus")


@pytest.mark.parametrize("code", ["ops.rotate", "ops.Rotate", "ops.lookup('rotate')"])
def test_only_the_file_of_an_op_that_is_used_is_imported(loaded_by, code):
    assert loaded_by("import stoker.ops", *FILES) == set()
    assert loaded_by(f"from stoker import ops; {code}", *FILES) == {"stoker.ops.geometry.rotate"}


def test_the_list_of_ops_is_the_same_whichever_was_used_first(python):
    code = "from stoker import ops; ops.{}; print(*ops.registered())"
    orders = {python(code.format(name)) for name in ("window", "Blend", "registered")}
    assert [order.split() for order in orders] == [list(registered())]


@pytest.mark.slow
def test_compiled_is_plain(example, dtype, run_op, values_of):
    allowed = channels_of(example, dtype)
    assert allowed
    for number, (height, width) in enumerate(SIZES):
        channels = allowed[number % len(allowed)]
        values = values_of(example, height, width, channels, number, dtype)
        fast = run_op(example, values, number)
        slow = run_op(example, values, number, arithmetic=PLAIN)
        assert fast.record == slow.record
        for (kind, _), got, expected in zip(values, fast.outputs, slow.outputs, strict=True):
            bits = storage(str(got.dtype))
            same = got.view(bits) == expected.view(bits)
            assert same.all(), f"{kind} {height}x{width}: {np.argwhere(~same)[:5]}"


@pytest.mark.slow
def test_users_check_passes(example, values_of):
    """Among others: nothing is left unwritten, and nothing undefined is read."""
    of_pictures = {"image", "mask"} & example.kernels.keys()
    given = None if of_pictures else [values_of(example, *size) for size in SIZES]
    check_op(example, given, rows=4)


def test_sizes_that_differ_are_bounded(example, run_op, values_of):
    channels = channels_of(example)[-1]
    for height, width in ((3, 40), (40, 3), (40, 40)):
        values = values_of(example, height, width, channels)
        loose = run_op(example, values, bound=(40, 40))
        tight = run_op(example, values)
        for a, b in zip(loose.outputs, tight.outputs, strict=True):
            assert a.shape == b.shape
            assert a.tobytes() == b.tobytes()


def test_scratch_never_falls_when_the_bound_grows(every_example):
    for op in every_example:
        kind, rest = ("image", (channels_of(op)[-1],)) if "image" in op.kernels else ("mask", ())
        if kind not in op.kernels:
            kind = "array"
        dtype = dtype_of(op) if kind == "image" else "uint8"
        for (h0, w0), (h1, w1) in pairwise([(1, 1), (1, 30), (24, 30), (25, 300), (999, 300)]):
            small = op.declare((State.fixed(kind, dtype, (h0, w0, *rest)),))[1]
            large = op.declare((State.fixed(kind, dtype, (h1, w1, *rest)),))[1]
            assert small <= large, op


def test_draws(example, run_op):
    keys = range(40)
    records = [run_op.draw(example, k, 300, 411).tobytes() for k in keys]
    assert records == [run_op.draw(example, k, 300, 411).tobytes() for k in keys]
    assert records == [run_op.draw(example, k, 300, 411, arithmetic=PLAIN).tobytes() for k in keys]
    assert (len(set(records)) > 1) == varies(example)


def varies(op) -> bool:
    """Return whether rows get different records."""
    certain = getattr(op, "p", 0.5) in (0, 1) or getattr(op, "crop", "") == "center"
    return op.random and not certain and getattr(op, "keep", "random") == "random"


def test_a_draw_reads_every_word_of_its_key(example, run_op):
    base = (3, stream_key(example.name), 17, 2)
    for word in range(5):
        parts = [[*base, 5] for _ in range(40)]
        for i, part in enumerate(parts):
            part[word] += i
        records = {run_op.draw(example, make_key(*p), 300, 411).tobytes() for p in parts}
        assert (len(records) > 1) == varies(example)


def test_p_0_is_the_identity(run_op, values_of):
    ops = [make(n, {"p": 0.0}) for n, c in registered().items() if "p" in c.__dataclass_fields__]
    assert ops
    for op in ops:
        values = values_of(op, 21, 34)
        for key in range(20):
            done = run_op(op, values, key)
            for (_, before), after in zip(values, done.outputs, strict=True):
                assert (before == after).all()


def test_parameters_are_run_time_arguments(examples, run_op, values_of):
    for name, choices in examples.items():
        ops = [make(name, params) for params in choices]
        kernels = [compiled(kernel.run) for kernel in ops[0].kernels.values()]
        for op in ops:
            run_op(op, values_of(op, 20, 30, channels_of(op)[-1]))
        counts = [len(kernel.signatures) for kernel in kernels]
        for op in ops:
            for seed in (1, 2):
                run_op(op, values_of(op, 31 + seed, 20, channels_of(op)[-1]), seed)
        assert counts == [len(kernel.signatures) for kernel in kernels]


def test_graph_form_makes_the_same_op(every_example):
    for op in every_example:
        again = make(op.name, op.params_data())
        assert again == op
        assert hash(again) == hash(op)
        assert again.params().tobytes() == op.params().tobytes(), op


@numba.njit
def nothing(src, dst, scratch):
    pass


@numba.njit
def something(src, dst, scratch):
    dst[0] = np.empty(src.size, np.uint8).size


@pytest.fixture
def allocated():
    """Count the allocations of a compiled function: `allocated(run, *arguments)`."""
    were_counted = nrt.memsys_stats_enabled()
    nrt.memsys_enable_stats()

    def count(run, *arguments):
        run(*arguments)  # compiled now: that allocates
        before = nrt.memsys_get_stats_alloc()
        run(*arguments)
        return nrt.memsys_get_stats_alloc() - before

    yield count
    if not were_counted:
        nrt.memsys_disable_stats()


def arguments_of(op, kind, dtype, as_record):
    """The arguments of a kernel, for an op that is applied."""
    allowed = channels_of(op, dtype) if kind == "image" else [3]
    channels = 3 if 3 in allowed else allowed[-1]
    shape = (40, 50, channels) if kind in ("image", "array") else (40, 50)
    (after,), need = op.declare((State.fixed(kind, dtype, shape),))
    record, params = as_record(op.record), as_record(op.parameters, op.params())
    items = (np.zeros((0, 4), np.uint32),) if op.draws_from else ()
    if op.draw is not no_draw:
        compiled(op.draw)(machine_key(make_key(1, 2, 3, 4)), params, *shape[:2], record, *items)
    if "apply" in (op.record.names or ()):
        record["apply"] = 1
    dst = np.zeros(after.bound, storage(after.dtype))
    return np.zeros(shape, dtype), dst, params, record, np.zeros(need + 64, np.uint8)


@pytest.mark.slow
@pytest.mark.timeout(420)  # where the cache is cold it compiles every kernel
def test_kernels_allocate_nothing(examples, allocated, as_record):
    three = [np.zeros(9, np.uint8) for _ in range(3)]
    handed_over = allocated(nothing, *three)  # a call from Python makes something for each array
    assert allocated(something, *three) == handed_over + 1, "the counter does not count"
    for name, choices in examples.items():
        op = make(name, choices[0])
        for kind in op.kernels:
            for dtype in ("uint8", "float32") if kind == "image" else ("uint8",):
                if kind == "image" and not channels_of(op, dtype):
                    continue
                given = arguments_of(op, kind, dtype, as_record)
                count = allocated(compiled(op.kernel_of(kind, dtype).run), *given)
                assert count == handed_over, f"{name} {kind} {dtype} allocates"


def test_draw_takes_a_machine_key():
    key = machine_key(make_key(1, 2, 3, 4))
    assert [type(word) for word in key] == [np.uint64] * 5
