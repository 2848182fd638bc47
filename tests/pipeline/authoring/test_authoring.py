"""Writing pipelines: styles, what tracing accepts, and the error for all that it does not."""

from __future__ import annotations

import numpy as np
import pytest

from stoker import ops
from stoker.ops.contract.states import State, StateError
from stoker.pipeline import Pipeline, branching, pipeline, scope
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, SampleError, UsageError
from stoker.protocol.item_fields import ItemField


def raises(message, body, states=None):
    """Assert that tracing, or binding, is refused with this message at a line of this file."""
    with pytest.raises(BuildError, match=message) as caught:
        bind(pipeline(body).graph(), states or {})
    return caught.value


def test_decorator_class_and_function_agree(toys):
    @pipeline
    def decorated(sample):
        return {"image": toys.crop(sample["image"], side=8)}

    @pipeline
    class Configured:
        def __init__(self, side):
            self.__side = side

        def define(self, sample):
            side = self.__side if self.__side else 1
            return {"image": toys.crop(sample.image, side=side)}

    plain = Pipeline.from_function(lambda sample: {"image": toys.crop(sample.image, side=8)})
    assert decorated.pipeline_id == Configured(8).pipeline_id == plain.pipeline_id
    assert Configured(9).pipeline_id != plain.pipeline_id
    assert (decorated.name, Configured(8).name) == ("decorated", "Configured")


def test_helpers_loops_and_nesting(toys):
    def twice(value, times):
        for index in range(times):
            with scope(f"turn{index}"):
                value = toys.flip(value)
        return value

    @pipeline
    def inner(sample):
        return {"image": twice(sample.image, 2)}

    @pipeline
    def outer(sample):
        return {"image": toys.crop(inner(sample)["image"])}

    streams = [n["stream"] for n in outer.graph().to_data()["nodes"] if n["node"] == "draw"]
    assert streams == ["turn0/toy_flip", "turn1/toy_flip", "toy_crop"]


def test_call_in_process(toys, photo):
    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=32)
        return {"image": toys.shift(image), "mask": mask, "label": sample.label}

    fields = {"image": photo[0], "mask": photo[1], "label": 3, "unused": np.zeros(4)}
    plain = train(fields, seed=1, epoch=2, id=3)
    fast = train(fields, seed=1, epoch=2, id=3, compiled=True)
    assert list(plain) == ["image", "mask", "label"]
    for name, value in plain.items():
        assert value.tobytes() == fast[name].tobytes()
    assert plain["label"] == 3
    assert not np.array_equal(plain["image"], train(fields, seed=1, epoch=2, id=4)["image"])
    frozen = [train(fields, id=k, freeze={"toy_crop": 1})["mask"] for k in range(3)]
    assert np.array_equal(frozen[0], frozen[1])
    assert np.array_equal(frozen[1], frozen[2])
    with pytest.raises(UsageError, match="train: expected a dict of fields, got ndarray"):
        train(photo[0])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 1.5}, "id: expected an integer from 0 to 18446744073709551615, got 1.5"),
        ({"id": True}, "id: expected an integer from 0 to 18446744073709551615, got True"),
        ({"seed": -1}, "seed: expected an integer from 0 to 18446744073709551615, got -1"),
        ({"epoch": np.float32(2)}, "epoch: expected an integer from 0 .*, got np.float32"),
        ({"view": 65536}, "view: expected an integer from 0 to 65535, got 65536"),
        ({"step": "3"}, "step: expected an integer from 0 .*, got '3'"),
        ({"progress": 2.0}, "progress: expected a number from 0 to 1, got 2.0"),
        ({"progress": True}, "progress: expected a number from 0 to 1, got True"),
    ],
)
def test_the_numbers_of_a_row_are_checked(row, message):
    train = pipeline(lambda sample: {"label": sample.label})
    with pytest.raises(UsageError, match=message):
        train({"label": 3}, **row)
    (name,) = row
    if name not in ("id", "visit"):
        with pytest.raises(UsageError, match=message):
            train.batch([{"label": 3}], **row)
    else:
        with pytest.raises(UsageError, match=message):
            train.batch([{"label": 3}] * 2, ids=[row[name]])
    if name not in ("step", "progress"):
        with pytest.raises(UsageError, match=message):
            ops.HorizontalFlip().sample(8, 8, **row)


def test_a_batch_without_batch_ops_has_the_rows_of_calls(toys, photo):
    train = pipeline(lambda sample: {"x": toys.crop(sample.image, side=32), "y": sample.label})
    image, _ = photo
    samples = {3: {"image": image, "label": 1}, 8: {"image": image[:40], "label": 2}}
    ids = [8, 3] * 5  # more than a row group
    rows = train.batch(samples, ids, seed=4, epoch=2)
    for row, number in zip(rows, ids, strict=True):
        alone = train(samples[number], seed=4, epoch=2, id=number)
        assert np.array_equal(row["x"], alone["x"])
        assert row["y"] == alone["y"]
    assert [int(row["y"]) for row in rows] == [2, 1] * 5


def test_numbers_of_numpy_are_those_of_a_row(toys, photo):
    train = pipeline(lambda sample: {"x": toys.crop(sample.image, side=32)})
    numbers = {"seed": 5, "epoch": 2, "id": 7, "view": 1}
    own = train({"image": photo[0]}, **numbers)
    other = train({"image": photo[0]}, **{name: np.int64(n) for name, n in numbers.items()})
    assert np.array_equal(own["x"], other["x"])


@pytest.mark.parametrize("dtype", ["u2", "i4", "f4", "f8"])
def test_arrays_of_another_byte_order_are_converted(dtype):
    train = pipeline(lambda sample: {"x": sample.x})
    native = (np.arange(12) * 300).astype(dtype).reshape(3, 4)
    swapped = native.astype(native.dtype.newbyteorder())
    assert np.array_equal(train({"x": swapped})["x"], native)
    assert train({"x": swapped})["x"].dtype.isnative


def test_sites_name_the_users_line(toys):
    def helper(value):
        return toys.Flip()(value)  # this line

    graph = pipeline(lambda sample: {"image": helper(sample.image)}).graph()
    with open(__file__) as file:
        lines = file.read().splitlines()
    sites = [graph.site(value) for value in range(3)]
    assert {site.file for site in sites} == {__file__}
    assert "# this line" in lines[sites[1].line - 1]


def test_outputs_are_checked(toys, photo):
    raises(r"test_authoring.py:\d+: <lambda>: a pipeline returns a dict .*got list", lambda s: [])
    raises(r"expected 1 to 256 outputs, got 0", lambda s: {})
    names = r"expected the names of outputs to be strings of 1 to 256 characters, got "
    raises(names + "3", lambda s: {3: s.image})
    raises(names + "''", lambda s: {"": s.image})
    raises(names + r"'x+\.\.\.x+'", lambda s: {"x" * 257: s.image})
    raises(r"the output name 'index' is reserved", lambda s: {"index": s.label})
    raises(
        r"output 'image': expected a value made from the sample's fields, got int",
        lambda s: {"image": 3},
    )
    varied = {"image": State("image", "uint8", (None, None, 3), (9, 9, 3))}
    error = raises(
        r"output 'image' is image uint8\[<=9x<=9x3\], whose size differs from sample to sample.*"
        "resize, center_crop",
        lambda s: {"image": s.image},
        varied,
    )
    assert error.details["output"] == "image"


def test_nested_outputs_are_refused(toys):
    raises(
        r"output 'pair': expected a value, got dict: outputs cannot be .* such as 'pair.left'",
        lambda s: {"pair": {"left": s.image}},
    )
    raises(r"output 'pair': expected a value, got tuple", lambda s: {"pair": (s.a, s.b)})


def test_recursion_and_endless_loops_are_refused(toys):
    def forever(value):
        return forever(value)

    @branching
    def until(value):
        return until(value - 1) if value > 0 else value

    def calls_itself(sample):
        return {"image": looped(sample)["image"]}

    def many(sample):
        total = sample.label
        for _ in range(10**9):
            total = total + 1
        return {"x": total}

    looped = pipeline(calls_itself)
    line = r"test_authoring.py:\d+: "
    raises(
        line + "<lambda>: the function, or one of its helpers, calls itself without end",
        lambda s: {"x": forever(s.label)},
    )
    raises(
        line + "calls_itself: the function, or one of its helpers, calls itself without end",
        calls_itself,
    )
    raises(line + r"`if`s on values .* nested deeper than 16.* a function that calls itself",
           lambda s: {"x": until(s.label)})  # fmt: skip
    raises(line + r"the pipeline has more than \d+ steps", many)

    def long(sample):
        total = sample.label
        for _ in range(3000):
            total = total * total
        return {"x": total}

    raises(line + "long: graph: more than 2048 nodes", long)


def test_fields_are_checked(toys):
    label = {
        "label": State.fixed("label", "int64", ()),
        "mask": State.fixed("mask", "uint8", (2, 2)),
    }
    raises(
        r"the dataset has no field 'lable'; did you mean 'label'\? it has: label, mask",
        lambda s: {"x": s.lable},
        label,
    )
    raises(r"no field 'image'; it has: no fields", lambda s: {"x": s.image})
    odd = {"x": State.fixed("array", "complex64", (2,))}
    raises(
        r"field 'x' is array complex64\[2\]: its dtype is not supported", lambda s: {"x": s.x}, odd
    )
    raises(r"expected the name of a field as a string, got 3", lambda s: {"x": s[3]})
    with pytest.raises(BuildError, match=r"field 'raw' is scalar bytes24\[\]: its dtype is not"):
        pipeline(lambda s: {"x": s.raw})({"raw": b"abc"})
    raises(
        r"'stoker.hour': there are stoker.epoch, stoker.view, stoker.step, stoker.progress",
        lambda s: {"x": s["stoker.hour"]},
    )


def test_values_are_checked(toys):
    raises(r"toy_flip: expected fields of a sample .*got int", lambda s: {"x": toys.flip(3)})
    raises(r"toy_flip: expected fields of a sample .*got nothing", lambda s: {"x": toys.flip()})
    raises(
        r"the result of toy_flip has no pixels yet: NumPy", lambda s: {"x": np.abs(toys.flip(s.a))}
    )
    raises(r"field 'a' cannot be iterated over", lambda s: {"x": list(s.a)})
    raises(r"fields of a sample cannot be iterated over", lambda s: {"x": [*s]})
    raises(r"field 'a' has no length yet: `.count` is the number", lambda s: {"x": len(s.a)})
    raises(r"field 'a'\[...\]: expected an index for each side, .*an op", lambda s: {"x": s.a[:8]})
    raises(r"output 'x': expected a value .*, got TracedShape", lambda s: {"x": s.a.shape})
    raises(r"field 'a' has no 'heigth', did you mean 'height'\?; it", lambda s: {"x": s.a.heigth})
    raises(r"field 'a' has no 'zzz'; it has all, any, count", lambda s: {"x": s.a.zzz})
    raises(r"field 'a' has no 'astype': use ops.cast;", lambda s: {"x": s.a.astype("int64")})
    raises(
        r"the result of 'count' is a value of each sample, not a function: leave the parentheses",
        lambda s: {"x": s.a.count()},
    )
    for number in (float, int, round, [1, 2].__getitem__):
        raises(
            r"field 'a' differs per sample, so it has no Python value while",
            lambda s, number=number: {"x": number(s.a)},
        )
    raises(r"add: expected a field of the sample.*got str", lambda s: {"x": s.a + "b"})
    raises(
        r"add: expected a finite number of 64 bits, got inf", lambda s: {"x": s.a + float("inf")}
    )
    raises(r"add: expected a finite number of 64 bits, got 9223", lambda s: {"x": s.a + 2**63})

    def used_elsewhere():
        stolen = []
        pipeline(lambda s: stolen.append(s.image) or {"image": s.image}).graph()
        return stolen[0]

    value = used_elsewhere()
    raises(r"field 'image' belongs to another pipeline", lambda s: {"x": s.a + value})


@pytest.mark.parametrize("name", ["mean", "max", "min", "sum", "any", "all"])
def test_statistics_are_methods(name):
    message = rf"test_authoring.py:\d+: field 'image': NumPy cannot be .* as in .*image.{name}\(\)"
    raises(message, lambda s: {"x": getattr(np, name)(s.image)})
    raises(message, lambda s: {"x": getattr(s.image, name)(axis=0)})


def test_kinds_are_checked(toys):
    states = {"mask": State.fixed("mask", "uint8", (4, 4))}
    error = raises(
        r"test_authoring.py:\d+: toy_shift on mask uint8\[4x4\]: toy_shift has no rule for a mask",
        lambda s: {"x": toys.Shift()(s.mask)},
        states,
    )
    assert isinstance(error, StateError)


def drops_one_of_a_call(s):
    return {"x": ops.elastic(s.image, s.boxes)[0]}


def drops_a_whole_call(s):
    ops.elastic(s.image, s.boxes)
    return {"x": s.image}


def drops_a_call_behind_others(s):
    image, boxes = ops.resize(*ops.horizontal_flip(s.image, s.boxes), size=(8, 8))
    return {"x": ops.elastic(image, boxes)[0]}


def drops_in_a_branch(s, ctx):
    image = s.image
    if s.label > 3:
        image, other = ops.rotate(s.image, s.boxes, degrees=1 + ctx.epoch)
        image, other = ops.elastic(image, other)
    return {"x": image}


def drops_what_joins(s):
    boxes = ops.vertical_flip(s.image, s.boxes)[1] if s.label > 3 else s.boxes
    return {"x": ops.elastic(s.image, boxes)[0]}


def drops_what_is_mixed(s):
    return {"x": ops.cutmix(s.image, s.boxes)[0]}


@pytest.mark.parametrize(
    "body",
    [
        drops_one_of_a_call,
        drops_a_whole_call,
        drops_a_call_behind_others,
        drops_in_a_branch,
        drops_what_joins,
        drops_what_is_mixed,
    ],
)
def test_kinds_are_checked_where_nothing_needs_the_result(body):
    """Also where the pipeline traveled as data; and all of these are good without boxes."""
    states = {
        "image": State.fixed("image", "uint8", (16, 16, 3)),
        "boxes": State.ragged("boxes", (ItemField("xyxy", "float32", 4),), 8),
        "label": State.fixed("label", "int64", ()),
    }
    message = r"test_authoring.py:\d+: (elastic|cutmix) on boxes.*has no rule for boxes; it has"
    error = raises(message, body, states)
    assert isinstance(error, StateError)
    assert error.details["line"] > body.__code__.co_firstlineno
    sent = Graph.from_data(pipeline(body).graph().to_data())
    with pytest.raises(StateError, match=message):
        bind(sent, states)
    bind(sent, {**states, "boxes": State.fixed("mask", "uint8", (16, 16))})


def test_what_nothing_needs_is_no_part_of_the_identity():
    def lean(s):
        return {"x": ops.elastic(s.image)}

    def with_more(s):
        ops.normalize(s.nothing)
        return {"x": ops.elastic(s.image, s.nothing)[0]}

    graphs = [pipeline(body).graph() for body in (lean, with_more)]
    assert [len(graph.unneeded) for graph in graphs] == [0, 2]
    assert pipeline_id(graphs[0]) == pipeline_id(graphs[1])
    for graph in graphs:
        bind(graph, {"image": State.fixed("image", "uint8", (16, 16, 3))})


def test_a_call_twice_is_needed_if_one_is():
    def twice(s):
        flip = ops.HorizontalFlip()
        flip(s.image)
        return {"x": flip(s.image)}

    assert pipeline(twice).graph().unneeded == ()


def test_parameters_name_the_line():

    raises(
        r"test_authoring.py:\d+: horizontal_flip: .*p",
        lambda s: {"x": ops.horizontal_flip(s.image, p=2.0)},
    )


def test_size_mismatch_in_process(toys):
    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=4)
        return {"image": image, "mask": mask}

    fields = {"image": np.zeros((9, 9, 3), np.uint8), "mask": np.zeros((9, 8), np.uint8)}
    with pytest.raises(
        BuildError, match=r"is applied to image uint8\[9x9x3\] and to mask uint8\[9x8\]"
    ):
        train(fields)
    assert not issubclass(BuildError, SampleError)


def test_import_needs_no_numba(loaded_by):
    code = (
        "import stoker.pipeline, stoker.pipeline.plain.interpreter, stoker.pipeline.planning.plan, "
        "stoker.pipeline.compiled.executor"
    )
    assert loaded_by(code, "numba", "llvmlite", "torch", "pyarrow") == set()
