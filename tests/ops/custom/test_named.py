"""Users' ops are found by name, from modules that were allowed, and from no other."""

import importlib
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from stoker import ops
from stoker.jit.named import allow_modules, is_allowed, reference, resolve
from stoker.ops import Op
from stoker.ops.contract.registry import lookup, make, name_of
from stoker.pipeline import Graph, pipeline
from stoker.protocol.errors import BuildError

IMAGE = np.arange(8 * 12 * 3, dtype=np.uint8).reshape(8, 12, 3)


def names_in(graph: Graph) -> list[str]:
    return [node["op"] for node in graph.to_data()["nodes"] if node["node"] == "draw"]


def test_an_op_of_a_user_runs_without_being_registered(custom_ops):
    @pipeline
    def corner(sample):
        return {"image": custom_ops.PickACorner(p=1)(sample.image)}

    assert np.array_equal(corner({"image": IMAGE})["image"], IMAGE[4:, 6:])
    assert names_in(corner.graph()) == ["custom_ops:PickACorner"]
    assert "pick_a_corner" not in ops.registered()


def test_the_default_stream_is_the_short_name(custom_ops):
    graph = custom_ops.corners.graph().to_data()
    streams = [node["stream"] for node in graph["nodes"] if node["node"] == "draw"]
    assert streams == [None, "pick_a_corner"]


def test_the_version_of_a_users_op_is_part_of_the_pipeline_id(custom_ops, monkeypatch):
    before = pipeline(lambda s: {"x": custom_ops.PickACorner()(s.image)}).pipeline_id
    monkeypatch.setattr(custom_ops.PickACorner, "version", 2)
    after = pipeline(lambda s: {"x": custom_ops.PickACorner()(s.image)}).pipeline_id
    assert before != after


def test_ops_of_ours_keep_their_names():
    assert name_of(ops.HorizontalFlip()) == "horizontal_flip"
    assert lookup("horizontal_flip") is ops.HorizontalFlip


def test_another_process_imports_it_where_it_is_allowed(custom_ops, fresh_names):
    fresh_names("custom_ops")
    assert make("custom_ops:PickACorner", {"p": 0.25}) == custom_ops.PickACorner(0.25)


def test_nothing_is_imported_that_was_not_allowed(fresh_names):
    fresh_names()
    sys.modules.pop("this", None)
    with pytest.raises(BuildError) as caught:
        lookup("this:Zen")
    assert str(caught.value) == (
        "'this:Zen': importing code from module 'this' is not allowed here; the operator of "
        "the daemon allows it with `op_modules = ['this']` in [daemon] (--op-module this)"
    )
    assert "this" not in sys.modules


def test_submodules_are_allowed_with_their_package(fresh_names):
    fresh_names()
    allow_modules("mine.ops")
    assert is_allowed("mine.ops")
    assert is_allowed("mine.ops.blur")
    assert not is_allowed("mine")
    assert not is_allowed("mine.opsy")
    allow_modules("*")
    assert is_allowed("anything")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("custom_ops:nothing", "'custom_ops:nothing': module 'custom_ops' has no 'nothing'"),
        ("custom_ops:draw", "'custom_ops:draw': expected a subclass of stoker.ops.Op"),
        ("json:dumps", "'json:dumps': expected a subclass of stoker.ops.Op"),
        ("a b:C", "'a b:C': expected `module:attribute`"),
        (":C", "':C': expected `module:attribute`"),
        ("os:", "'os:': expected `module:attribute`"),
    ],
)
def test_names_that_are_no_op(fresh_names, name, message):
    fresh_names("*")
    with pytest.raises(BuildError) as caught:
        lookup(name)
    assert str(caught.value) == message


def test_a_module_that_fails_to_import_is_named(fresh_names, user_folder, tmp_path, monkeypatch):
    (tmp_path / "failing_ops.py").write_text("raise RuntimeError('out of luck')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    fresh_names("failing_ops")
    with pytest.raises(BuildError, match="'failing_ops' failed with RuntimeError: out of luck"):
        resolve("failing_ops:Blur")


def test_an_op_inside_a_function_is_refused_at_the_line_that_uses_it():
    @dataclass(frozen=True)
    class Local(Op):
        name: ClassVar[str] = "local"
        kernels: ClassVar[dict] = {"image": ops.Invert.kernels["image"]}

    @pipeline
    def train(sample):
        return {"image": Local()(sample.image)}

    with pytest.raises(
        BuildError, match=r"is defined inside a function .* move it to the top leve"
    ):
        train.graph()
    with pytest.raises(BuildError) as caught:
        train.graph()
    assert caught.value.details["file"] == __file__


def test_a_class_that_hides_behind_another_is_refused(custom_ops, monkeypatch):
    kept = custom_ops.PickACorner
    monkeypatch.setattr(custom_ops, "PickACorner", ops.Invert)
    with pytest.raises(BuildError, match="custom_ops:PickACorner is not the object that is used"):
        reference(kept, "op 'pick_a_corner'")


def test_an_op_of_the_script_itself_is_refused(user_folder, tmp_path):
    script = tmp_path / "train.py"
    source = importlib.util.find_spec("custom_ops").origin
    with open(source) as file:
        script.write_text(file.read() + "\ncorners.graph()\n")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert (
        "op 'pick_a_corner' is defined in __main__, which a worker cannot import: move it into a "
        "module and import it from there"
    ) in done.stderr
    assert f"{script}:" in done.stderr
