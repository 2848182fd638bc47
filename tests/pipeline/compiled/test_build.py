"""The build: a new pipeline of known ops compiles nothing; edits, races, read-only sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from warm import Script

from stoker.jit import compiling as jit
from stoker.jit import kernel, set_cache_root, sources
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.registry import register, registered
from stoker.ops.contract.states import State
from stoker.pipeline import Row, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.listing import listing
from stoker.pipeline.compiled.loop import compile_loop, execute
from stoker.pipeline.compiled.program import write_program
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, ResourceError


def compiled_functions():
    """Number of functions, each for one choice of types, that this process compiled or loaded."""
    return sum(len(getattr(fast, "overloads", ())) for fast in jit._done.values())


def test_a_new_pipeline_of_known_ops_compiles_nothing(toys, varied):
    """Not for other numbers, nor for another order, other branches, other outputs."""

    @pipeline
    def one(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=32)
        image = toys.flip(image, p=0.5)
        return {"image": image, "mask": mask, "n": sample.label * 2 + 1.5}

    @pipeline
    def two(sample):
        image = toys.crop(sample.image, side=77, stream="elsewhere")
        for turn in range(20):
            if sample.label > turn:
                image = toys.flip(image, p=0.125, stream=f"flip/{turn}")
            else:
                image = toys.crop(image, side=77 - turn, stream=f"crop/{turn}")
                image = toys.crop(image, side=57, stream=f"again/{turn}")
        image = toys.crop(image, side=9, stream="last")
        return {"pixels": image, "n": sample.label * 7 + 0.25, "m": sample.label % 3 == 1}

    compile_plan(bind(one.graph(), varied))
    before = compiled_functions()
    compile_plan(bind(two.graph(), varied), {"last": 3})
    assert compiled_functions() == before


def test_a_plan_of_many_outputs_is_a_program_of_as_many_lines(toys, varied):
    def many(count):
        def define(sample):
            crops = [toys.crop(sample.image, side=8 + i, stream=f"s/{i}") for i in range(count)]
            return {f"x{i}": toys.flip(crop, stream=f"f/{i}") for i, crop in enumerate(crops)}

        return bind(pipeline(define).graph(), varied)

    compile_plan(many(1))
    before = compiled_functions()
    engine = compile_plan(many(69))
    assert compiled_functions() == before
    lines = [len(write_program(many(count)).code) for count in (1, 35, 69)]
    assert lines[2] - lines[1] == lines[1] - lines[0]
    fields = np.arange(90 * 95 * 3, dtype=np.uint8).reshape(90, 95, 3)
    outs = [np.zeros(o.shape, o.dtype) for o in engine.plan.outputs]
    expected = [out.copy() for out in outs]
    engine.run(Row(1, 2, 3), [fields], outs)
    Interpreter(engine.plan).run(Row(1, 2, 3), [fields], expected)
    assert all(map(np.array_equal, outs, expected))


def test_a_program_can_be_read(toys, varied):
    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=20)
        if sample.label > 3:
            image = toys.shift(image)
        return {"image": image, "mask": mask, "n": sample.label + 0.5}

    text = listing(write_program(bind(train.graph(), varied)))
    lines = [line.split(maxsplit=1)[1] for line in text.splitlines()]
    assert any(line.startswith("take       dst v") and "sides 1.." in line for line in lines)
    assert any(line.startswith("draw       draw of toy_crop, decision 0, of v") for line in lines)
    assert any("mask kernel of toy_crop, dst v" in line for line in lines)
    (branch,) = [line for line in lines if line.startswith("unless")]
    to = int(branch.rpartition("to ")[2])
    assert lines[to - 1].startswith("goto")
    assert any(line.startswith("put        output 2, src v") for line in lines)
    assert len(lines) < 30


def test_cache_that_cannot_be_written(tmp_path, kernel_cache):
    register(NeverCompiled)  # until the end of this module, as the toys
    states = {"image": State.fixed("image", "uint8", (8, 8, 3))}
    plan = bind(pipeline(lambda s: {"x": NeverCompiled()(s.image)}).graph(), states)
    (tmp_path / "file").write_text("")
    set_cache_root(tmp_path / "file" / "below")
    try:
        with pytest.raises(ResourceError, match=r"kernel cache .*below.*: cannot write there"):
            compile_plan(plan)
    finally:
        set_cache_root(kernel_cache)


@kernel
def never_compiled(src, dst, params, record, scratch):
    dst[0, 0, 0] = src[0, 0, 0]


@dataclass(frozen=True)
class NeverCompiled(Op):
    name: ClassVar[str] = "never_compiled"
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(never_compiled, never_compiled)}


@kernel
def giving_run(src, dst, params, record, scratch):
    return src[0, 0, 0]


@dataclass(frozen=True)
class GivesBack(Op):
    name: ClassVar[str] = "gives_back"
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(giving_run, giving_run)}


@kernel
def broken_run(src, dst, params, record, scratch):
    dst[0, 0, 0] = src.no_such_attribute


@kernel
def broken_draw(key, params, height, width, record):
    record["missing"] = height


@dataclass(frozen=True)
class BrokenKernel(Op):
    name: ClassVar[str] = "broken_kernel"
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(broken_run, broken_run)}


@dataclass(frozen=True)
class BrokenDraw(Op):
    name: ClassVar[str] = "broken_draw"
    draw: ClassVar[Any] = staticmethod(broken_draw)
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(broken_run, broken_run)}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            BrokenKernel,
            r"test_build.py:\d+: op 'broken_kernel' on image uint8\[8x8x3\] to image uint8"
            r"\[8x8x3\]: its image kernel \(.*test_build.py:\d+\) cannot be compiled: "
            r".*no_such_attribute.*A kernel uses",
        ),
        (
            BrokenDraw,
            r"test_build.py:\d+: op 'broken_draw': its draw \(.*test_build.py:\d+\) cannot be "
            r"compiled: .*missing.*A kernel uses",
        ),
        (
            GivesBack,
            r"test_build.py:\d+: op 'gives_back' on image .*: its image kernel \(.*test_build.py"
            r":\d+\) cannot be compiled: it returns uint8, expected nothing: write it to dst",
        ),
    ],
)
def test_an_op_that_cannot_be_compiled_is_named(broken, message):
    if broken.name not in registered():
        register(broken)
    states = {"image": State.fixed("image", "uint8", (8, 8, 3))}
    plan = bind(pipeline(lambda s: {"x": broken()(s.image)}).graph(), states)
    with pytest.raises(BuildError, match=message) as caught:
        compile_plan(plan)
    assert "Traceback" not in str(caught.value)
    assert "numba" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.details["op"] == broken.name


OP_FILE = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from stoker.ops.contract.op import Kernel, Op
from stoker.ops.contract.registry import register
from stoker.jit import kernel
from offset import OFFSET, offset

@kernel
def add(src, dst, params, record, scratch):
    s = src.reshape(src.size)
    d = dst.reshape(dst.size)
    for i in range(s.size):
        d[i] = np.uint8(s[i] + offset())

def plain(src, dst, params, record, scratch):
    dst[...] = src + np.uint8(OFFSET)

@register
@dataclass(frozen=True)
class Edited(Op):
    name: ClassVar[str] = "edited"
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(add, plain)}
"""
OFFSET_FILE = """
from stoker.jit import kernel
OFFSET = {value}

@kernel
def offset():
    return OFFSET
"""
PROGRAM = textwrap.dedent("""
    import sys, time
    sys.dont_write_bytecode = True
    sys.path.insert(0, sys.argv[1])
    import numpy as np
    import edited_op
    from stoker.pipeline import Row, pipeline
    from stoker.pipeline.compiled.executor import compile_plan
    from stoker.jit import compiled, set_cache_root
    set_cache_root(sys.argv[2])
    train = pipeline(lambda sample: {"x": edited_op.Edited()(sample.image)})
    image = np.zeros((4, 4, 3), np.uint8)
    engine = compile_plan(train.plan_for({"image": image}))
    out = np.zeros((4, 4, 3), np.uint8)
    engine.run(Row(0, 0, 0), [image], [out])
    hits = sum(compiled(edited_op.add).stats.cache_hits.values())
    print(out[0, 0, 0], hits)
""")


def run_program(folder, cache):
    return Script(
        *("-c", PROGRAM, folder, cache),
        imports=["numba", "stoker.pipeline.compiled.executor"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process):
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    return out.split()


@pytest.mark.slow
def test_edits_and_damage_are_noticed_and_read_only_sources_and_races_work(tmp_path, kernel_cache):
    folder, cache = tmp_path / "sources", tmp_path / "cache"
    folder.mkdir()
    compile_loop()  # the cache of the tests has it and its callees: compiled here is the op
    for name in {fn.__name__ for fn in sources._reachable(execute, whole_module=False)}:
        for stored in kernel_cache.glob(f"{name}-*"):
            shutil.copytree(stored, cache / stored.name)
    (folder / "edited_op.py").write_text(OP_FILE)
    (folder / "offset.py").write_text(OFFSET_FILE.format(value=3))
    for path in [*folder.iterdir(), folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    # Two processes build at once; both are right, and a third loads what they made.
    racers = [run_program(folder, cache) for _ in range(2)]
    assert [finish(process)[0] for process in racers] == ["3", "3"]
    assert finish(run_program(folder, cache)) == ["3", "1"]
    # Code is damaged, of a kernel, its callee and the loop: it is made again, and right.
    for name in ("execute", "add", "offset"):
        files = [*cache.glob(f"{name}-*/**/*.nbc")]
        assert files, name
        for file in files:
            file.write_bytes(b"damaged")
    assert finish(run_program(folder, cache)) == ["3", "0"]
    assert finish(run_program(folder, cache)) == ["3", "1"]
    # A kernel that the op's kernel calls, in another file, is edited: same size, same time stamp.
    stamp = (folder / "offset.py").stat().st_mtime_ns
    folder.chmod(0o755)
    (folder / "offset.py").chmod(0o644)
    (folder / "offset.py").write_text(OFFSET_FILE.format(value=4))
    os.utime(folder / "offset.py", ns=(stamp, stamp))
    assert finish(run_program(folder, cache)) == ["4", "0"]
    shutil.rmtree(folder)
