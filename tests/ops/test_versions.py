"""Two versions of one op side by side: a graph is bound to the one that it names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from stoker import ops
from stoker.jit import kernel
from stoker.ops import Kernel, Op, State
from stoker.ops.contract import registry
from stoker.ops.testing import check_op
from stoker.pipeline import Row, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.engine.interface import Engine
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import UnknownNameError, VersionError
from stoker.rng.draws import integers

STATES = {"image": State.fixed("image", "uint8", (8, 8, 3))}


@kernel
def draw_low(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["level"] = integers(key, 0, 100)


@kernel
def draw_high(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["level"] = 100 + integers(key, 0, 100)


@kernel
def run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    for row in range(src.shape[0]):
        for column in range(src.shape[1]):
            for channel in range(src.shape[2]):
                dst[row, column, channel] = record["level"]


def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = record["level"]


@dataclass(frozen=True)
class Older(Op):
    """Paints an image in a level below 100. Draw 0 is `level`."""

    name: ClassVar[str] = "tests_paint"
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype([("unused", "u1")])
    record: ClassVar[np.dtype[Any]] = np.dtype([("level", "u1")])
    draw = staticmethod(draw_low)
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(run, plain)}

    def params(self) -> np.ndarray:
        return np.zeros((), self.parameters)


@dataclass(frozen=True)
class Newer(Older):
    """The same from 100 on."""

    version: ClassVar[int] = 2
    draw = staticmethod(draw_high)


@pytest.fixture
def paint(monkeypatch):
    """Both, under one name, for the length of a test."""
    monkeypatch.setattr(registry, "_OPS", dict(registry._OPS))
    monkeypatch.setattr(registry, "_EARLIER", {})
    monkeypatch.setattr(registry, "_UNLISTED", set(registry._UNLISTED))
    registry.register_unlisted(Newer)
    registry.register_earlier(Older)
    return "tests_paint"


def level(plan, engine: type[Engine] | Any) -> int:
    out = np.zeros((8, 8, 3), np.uint8)
    engine(plan).run(Row(3, 5, 1), [np.zeros((8, 8, 3), np.uint8)], [out])
    (found,) = set(out.reshape(-1).tolist())
    return found


@pytest.mark.parametrize("version", [1, 2])
def test_a_graph_is_bound_to_the_version_that_it_names(paint, version):
    """Also a graph from data, interpreted and compiled, and next to calls that no output needs."""

    def body(sample):
        image = ops.at(paint, version)()(sample.image)
        ops.at(paint, 3 - version)()(image, stream="not needed")
        return {"image": image}

    made = pipeline(body)
    fields = {"image": np.zeros((8, 8, 3), np.uint8)}
    (draw,) = [node for node in made.graph().to_data()["nodes"] if node["node"] == "draw"]
    assert (draw["op"], draw["version"]) == (paint, version)
    again = bind(Graph.from_data(made.graph().to_data()), STATES)
    for plan in (made.plan_for(fields), again):
        levels = {level(plan, engine) for engine in (Interpreter, compile_plan)}
        assert len(levels) == 1
        assert (levels.pop() >= 100) == (version == 2)


def test_versions_are_other_pipelines(paint):
    def made(version):
        return pipeline(lambda sample: {"image": ops.at(paint, version)()(sample.image)})

    assert made(1).pipeline_id != made(2).pipeline_id


def test_each_version_keeps_the_contract(paint):
    for version in (1, 2):
        check_op(ops.at(paint, version)())


def test_versions_that_are_not_there(paint):
    with pytest.raises(VersionError, match=r"op 'tests_paint' has no version 3; it has 1, 2"):
        ops.at(paint, 3)
    with pytest.raises(UnknownNameError, match="there is no op 'tests_pain'; did you mean"):
        ops.at("tests_pain", 1)
    for cls in (Older, Newer):
        twice = type("Twice", (cls,), {})
        with pytest.raises(ValueError, match=rf"version {cls.version} of op 'tests_paint' is"):
            registry.register_earlier(twice)
    graph = pipeline(lambda sample: {"image": Newer()(sample.image)}).graph().to_data()
    graph["nodes"][1]["version"] = 7
    with pytest.raises(VersionError, match="made for version 7, this is version 2"):
        bind(Graph.from_data(graph), STATES)
