"""Python functions in pipelines: the law, both engines alike, identity, and what is refused."""

import gc
import random
import signal

import numpy as np
import pytest

from stoker import ops
from stoker.ops import make
from stoker.ops.contract.states import State
from stoker.ops.custom.foreign import generator
from stoker.pipeline import Row, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.pipeline.showing.explain_plan import explain
from stoker.protocol.errors import BuildError, SampleError
from stoker.rng.philox import key_block
from stoker.rng.row import row_table
from stoker.rng.streams import make_key, stream_key

ROWS = [Row(2**64 - 1 if k % 3 else 5, 10**6 * k + 3, k // 4, k % 2, k % 5) for k in range(8)]
VARIED = {
    "image": State("image", "uint8", (None, None, 3), (64, 64, 3)),
    "mask": State("mask", "uint8", (None, None), (64, 64)),
}


@pytest.fixture(scope="module")
def functions(user_folder):
    import custom_functions  # noqa: PLC0415

    return custom_functions


def values(height=20, width=31, seed=0):
    draw = np.random.default_rng(seed)
    return [
        draw.integers(0, 256, (height, width, 3), dtype=np.uint8),
        draw.integers(0, 9, (height, width), dtype=np.uint8),
    ]


def both(plan, row, inputs):
    """Run a row by the interpreter and compiled; they must agree."""
    results = []
    for engine in (Interpreter(plan), compile_plan(plan)):
        outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
        engine.run(row, inputs, outputs)
        results.append(outputs)
    for left, right in zip(*results, strict=True):
        assert left.tobytes() == right.tobytes(), row
    return results[0]


@pytest.fixture(scope="module")
def joint_plan(functions):
    """A function between built-in ops, on image and mask, inside and outside of a branch."""

    @pipeline
    def train(sample):
        image, mask = ops.python(functions.roll, sample.image, sample.mask)
        if image.height > 16:
            image = ops.python(functions.jitter, image)
        else:
            image = ops.python(functions.negative, image, randomness="none")
        image, mask = ops.resize(image, mask, size=(9, 14))
        return {"image": ops.horizontal_flip(image), "mask": ops.unlinked(mask)}

    return bind(train.graph(), VARIED)


def test_engines_agree_and_branches_work(joint_plan):
    for row in ROWS:
        for height in (20, 10):
            image, mask = both(joint_plan, row, values(height))
            assert image.shape == (9, 14, 3)
            assert mask.shape == (9, 14)


def test_the_function_computes_what_it_computes_alone(functions):
    @pipeline
    def train(sample):
        image, mask = ops.python(functions.roll, sample.image, sample.mask)
        return {"image": image, "mask": ops.python(functions.roll, mask, stream="again")}

    fixed = {
        name: State.fixed(*s)
        for name, s in {
            "image": ("image", "uint8", (20, 31, 3)),
            "mask": ("mask", "uint8", (20, 31)),
        }.items()
    }
    plan, (image, mask) = bind(train.graph(), fixed), values()
    assert plan.streams == ("again", "roll")
    for row in ROWS:

        def rng(name, row=row):
            words = (row.seed, stream_key(name), row.id, row.epoch, row.visit, row.view)
            return generator(make_key(*words))

        got = both(plan, row, [image, mask])
        assert np.array_equal(got[0], functions.roll(image, rng("roll")))
        once = functions.roll(mask, rng("roll"))
        assert np.array_equal(got[1], functions.roll(once, rng("again")))


def test_the_generator_reads_the_blocks_of_the_rows_key():
    for key in (
        make_key(1, 2, 3, 4, 5, 6),
        make_key(2**64 - 1, 2**64 - 1, 0, 0),
        make_key(0, 0, 0, 1),
    ):
        words = generator(key).integers(0, 2**64, 12, dtype=np.uint64).tolist()
        assert words == [word for block in range(3) for word in key_block(key, block)]


def test_another_shape_and_dtype_come_out_as_declared(functions):
    @pipeline
    def small(sample):
        image = ops.python(
            functions.thumbnail,
            sample.image,
            randomness="none",
            size=(8, 12),
            channels=1,
            dtype="float32",
        )
        return {"image": image}

    plan = bind(small.graph(), VARIED)
    assert (plan.outputs[0].dtype, plan.outputs[0].shape) == ("float32", (8, 12, 1))
    image = values()[0]
    assert np.array_equal(both(plan, ROWS[0], [image])[0], functions.thumbnail(image))


@pytest.mark.parametrize("name", ["upside_down", "column_major", "every_second", "read_only"])
def test_results_of_any_strides_arrive_as_they_read(functions, name):
    function = getattr(functions, name)
    train = pipeline(lambda s: {"image": ops.python(function, s.image, randomness="none")})
    plan = bind(train.graph(), {"image": State.fixed("image", "uint8", (20, 31, 3))})
    image = values()[0]
    assert np.array_equal(both(plan, ROWS[0], [image])[0], function(image))


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("as_lists", r"object of shape \(20, 31, 3\)"),
        ("big_endian", r">u2 of shape \(20, 31, 3\)"),
        ("as_float", r"float64 of shape \(20, 31, 3\)"),
        ("as_text", r"<U5 of shape \(\)"),
        ("nothing", r"object of shape \(\)"),
    ],
)
def test_results_of_another_type_are_refused(functions, name, got):
    function = getattr(functions, name)
    train = pipeline(lambda s: {"image": ops.python(function, s.image, randomness="none")})
    with pytest.raises(BuildError, match=f"{name} gave {got}, expected uint8 of shape"):
        bind(train.graph(), {"image": State.fixed("image", "uint8", (20, 31, 3))})


def test_global_generators_are_seeded_for_each_row_and_put_back(functions):
    @pipeline
    def train(sample):
        return {"image": ops.python(functions.noisy, sample.image, randomness="global")}

    plan = bind(train.graph(), {"image": State.fixed("image", "uint8", (20, 31, 3))})
    image = values()[0]
    random.seed(1)
    np.random.seed(1)
    expected_next = (random.Random(1).random(), np.random.RandomState(1).random())
    results = [both(plan, row, [image])[0].tobytes() for row in ROWS]
    assert (random.random(), np.random.random()) == expected_next
    assert len(set(results)) == len(ROWS)
    np.random.seed(99)
    assert [both(plan, row, [image])[0].tobytes() for row in reversed(ROWS)] == results[::-1]


def test_torch_modules_on_channels_first(user_folder):
    @pipeline
    def train(sample):
        image = ops.python("custom_modules:SCALE", sample.image, randomness="none", dtype="float32")
        drop = ops.python("custom_modules:DROP", sample.image, randomness="global", dtype="float32")
        return {"image": image, "drop": drop}

    plan = bind(train.graph(), {"image": State.fixed("image", "uint8", (4, 5, 3))})
    image = np.random.default_rng(0).integers(1, 256, (4, 5, 3), dtype=np.uint8)
    kept = set()
    for row in ROWS:
        scaled, dropped = both(plan, row, [image])
        assert np.array_equal(scaled, image * np.array([1, 0.5, 2], np.float32))
        ratio = dropped / scaled
        assert np.isin(ratio, (0, 1)).all()
        assert (ratio == ratio[0, 0]).all()
        kept.add(tuple(ratio[0, 0]))
    assert len(kept) > 2


def test_explain_says_what_runs_in_python(joint_plan):
    text = explain(joint_plan)
    assert "stream 'roll', in Python: custom_functions:roll (" in text
    assert text.count("in Python") == 3


def test_a_chunk_in_one_call_is_its_rows(functions, located):
    @pipeline
    def train(sample):
        return {"image": ops.python(functions.jitter, sample.image)}

    plan = bind(train.graph(), {"image": State.fixed("image", "uint8", (6, 7, 3))})
    column = np.random.default_rng(0).integers(0, 256, (3, 6, 7, 3), dtype=np.uint8)
    index = np.array([2, 0, 1, 1])
    engine, out = compile_plan(plan), np.zeros((4, 6, 7, 3), np.uint8)
    engine.run_rows(row_table(ROWS[:4]), located([column], index), [out])
    for place, row in enumerate(ROWS[:4]):
        assert np.array_equal(out[place], both(plan, row, [column[index[place]]])[0])


@pytest.mark.parametrize(
    ("name", "randomness", "message"),
    [
        ("own_generator", "none", "it gave two results for one row"),
        ("own_generator", "global", "it gave two results for one row"),
        ("counting", "none", "it gave two results for one row"),
        ("noisy", "none", "draws from a global generator .* randomness='global'"),
        (
            "grown",
            "generator",
            r"gave uint8 of shape \(40, 31, 3\), expected uint8 of shape \(20, ",
        ),
        ("fails", "generator", r"raised RuntimeError: no \(.*custom_functions.py:\d+\)"),
        ("leaves_at_once", "generator", r"raised SystemExit: enough \(.*custom_functions.py:\d+\)"),
    ],
)
def test_a_function_that_breaks_the_law_is_refused_by_name_and_line(
    functions, name, randomness, message
):
    @pipeline
    def train(sample):
        return {"image": ops.python(getattr(functions, name), sample.image, randomness=randomness)}

    with pytest.raises(BuildError, match=message) as caught:
        bind(train.graph(), {"image": State.fixed("image", "uint8", (20, 31, 3))})
    assert f"custom_functions:{name}" in str(caught.value)
    assert caught.value.details["file"] == __file__


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("leaves", "raised SystemExit: 3 ("),
        ("interrupts_on_bright", "raised KeyboardInterrupt: stop ("),
    ],
)
def test_a_function_that_asks_to_exit_is_a_sample_error_in_workers(functions, name, said):
    @pipeline
    def train(sample):
        return {"image": ops.python(getattr(functions, name), sample.image, randomness="none")}

    plan = bind(train.graph(), {"image": State.fixed("image", "uint8", (5, 6, 3))})
    bright, outputs = np.full((5, 6, 3), 255, np.uint8), [np.zeros((5, 6, 3), np.uint8)]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a worker
    try:
        for engine in (Interpreter(plan), compile_plan(plan)):
            with pytest.raises(SampleError, match=r"custom_functions.py:\d+") as caught:
                engine.run(Row(7, 41, 3), [bright], outputs)
            assert str(caught.value).startswith(f"sample 41: custom_functions:{name} {said}")
            engine.run(Row(7, 42, 3), [np.zeros((5, 6, 3), np.uint8)], outputs)
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_during_a_function_reaches_the_script(functions):
    @pipeline
    def train(sample):
        image = ops.python(functions.interrupts_on_bright, sample.image, randomness="none")
        return {"image": image}

    plan = bind(train.graph(), {"image": State.fixed("image", "uint8", (5, 6, 3))})
    bright, outputs = np.full((5, 6, 3), 255, np.uint8), [np.zeros((5, 6, 3), np.uint8)]
    with pytest.raises(KeyboardInterrupt):
        Interpreter(plan).run(Row(7, 41, 3), [bright], outputs)


def test_a_failure_on_one_sample_is_a_sample_error_in_both_engines(functions, located):
    @pipeline
    def train(sample):
        return {"image": ops.python(functions.fails_on_bright, sample.image, randomness="none")}

    plan = bind(train.graph(), {"image": State.fixed("image", "uint8", (5, 6, 3))})
    bright, dark = np.full((5, 6, 3), 255, np.uint8), np.zeros((5, 6, 3), np.uint8)
    outputs = [np.zeros((5, 6, 3), np.uint8)]
    for engine in (Interpreter(plan), compile_plan(plan)):
        with pytest.raises(SampleError) as caught:
            engine.run(Row(7, 41, 3), [bright], outputs)
        assert str(caught.value).startswith(
            "sample 41: custom_functions:fails_on_bright raised ValueError: too bright ("
        )
        assert caught.value.details["id"] == 41
        assert isinstance(caught.value.__cause__, ValueError)
        engine.run(Row(7, 42, 3), [dark], outputs)  # the next row is as if nothing had been
        assert not outputs[0].any()
    chunk = np.stack([dark, bright, dark])
    out = np.full((3, 5, 6, 3), 9, np.uint8)
    rows = row_table([Row(7, i, 0) for i in (1, 2, 3)])
    with pytest.raises(SampleError) as caught:
        compile_plan(plan).run_rows(rows, located([chunk], np.arange(3)), [out])
    assert (caught.value.details["place"], caught.value.details["id"]) == (1, 2)


def test_code_that_is_another_one_is_refused(functions):
    graph = pipeline(lambda s: {"x": ops.python(functions.jitter, s.image)}).graph()
    (draw,) = [node for node in graph.to_data()["nodes"] if node["node"] == "draw"]
    assert any(text.startswith("numpy ") for text in draw["params"]["distributions"])
    assert make("python", draw["params"]) == make("python", draw["params"])
    with pytest.raises(BuildError, match="custom_functions:jitter here is not the code that"):
        make("python", {**draw["params"], "source": "0" * 32})
    with pytest.raises(BuildError, match=r"expected .* of numpy 0\.1"):
        make("python", {**draw["params"], "distributions": ["numpy 0.1"]})


def test_an_edit_of_the_source_is_another_pipeline(user_folder, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    ids = []
    for text in ("return image", "return image.copy()"):
        (tmp_path / "edited_functions.py").write_text(f"def same(image):\n    {text}\n")
        import edited_functions  # noqa: PLC0415

        made = pipeline(
            lambda s: {"x": ops.python(edited_functions.same, s.image, randomness="none")}
        )
        ids.append(made.pipeline_id)
    assert ids[0] != ids[1]


def test_functions_are_imported_only_where_it_is_allowed(functions, fresh_names):
    graph = pipeline(lambda s: {"x": ops.python("custom_functions:jitter", s.image)}).graph()
    fresh_names()
    with pytest.raises(BuildError, match="op_modules = \\['custom_functions'\\]"):
        bind(graph, VARIED)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: ops.python(lambda x: x, s.image), "is defined inside a function"),
        (
            lambda s: ops.python("custom_functions:NOT_A_FUNCTION", s.image),
            "expected a callable object",
        ),
        (lambda s: ops.python("custom_functions:x", s.image), "has no 'x'"),
        (lambda s: ops.python("__main__:x", s.image), "a worker cannot import __main__"),
        (
            lambda s: ops.python("custom_functions:jitter", s.image, randomness="some"),
            "expected randomness to be one of generator, global, none, got 'some'",
        ),
        (
            lambda s: ops.python("custom_functions:jitter", s.image, dtype="float16"),
            "expected dtype to be one of bool, uint8",
        ),
        (
            lambda s: ops.python("custom_functions:jitter", s.image, stream="a", size=(0, 3)),
            "expected size to be an integer, or",
        ),
    ],
)
def test_what_cannot_be_written(call, message):
    with pytest.raises(BuildError, match=message):
        pipeline(lambda sample: {"image": call(sample)}).graph()


def test_callbacks_of_equal_calls_are_one(functions):
    graph = pipeline(lambda s: {"x": ops.python(functions.jitter, s.image)}).graph()
    addresses = set()
    for _ in range(5):
        plan = bind(graph, {"image": State.fixed("image", "uint8", (6, 7, 3))})
        addresses.add(int(plan.decisions[0].op.params()["callback"]))
        gc.collect()
    assert len(addresses) == 1


def test_a_function_without_a_generator_says_so_and_the_other_way_round(functions):
    """Both are found where the pipeline is written, not in a trial with noise."""

    def build(function, *names, **how):
        def train(sample):
            made = ops.python(function, *(sample[name] for name in names), **how)
            return {"image": made[0] if how.get("together") else made}

        return lambda: pipeline(train).graph()

    message = r"expected a function\(array, rng\), got negative\(image\): add .* randomness='none'"
    with pytest.raises(BuildError, match=message):
        build(functions.negative, "image")()
    message = r"expected a function\(array\) for randomness='none', got jitter\(image, rng\): leave"
    with pytest.raises(BuildError, match=message):
        build(functions.jitter, "image", randomness="none")()
    message = r"function\(array1, array2, rng\), got forgets_nothing\(image, mask\)"
    with pytest.raises(BuildError, match=message):
        build(functions.forgets_nothing, "image", "mask", together=True)()
