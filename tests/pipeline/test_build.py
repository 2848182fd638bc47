"""The build: shared where only numbers differ; edits, races and read-only sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from stoker import ops
from stoker.ops.contract import Kernel, Op, State
from stoker.ops.registry import register, registered
from stoker.pipeline import pipeline
from stoker.pipeline.build import build_key
from stoker.pipeline.diagnose import calls_apart
from stoker.pipeline.executor import compile_plan
from stoker.pipeline.glue import write_glue
from stoker.pipeline.plan import bind
from stoker.protocol.errors import BuildError, ResourceError
from stoker.rng.apart import Apart
from stoker.rng.jit import cache_root, kernel, set_cache_root


def test_numbers_share_one_build(toys, varied):
    """Parameters, sizes, stream names, constants and lines are arguments, not code."""

    @pipeline
    def one(sample):
        image = toys.flip(toys.crop(sample.image, side=32), p=0.5)
        return {"image": image, "n": sample.label * 2 + 1.5}

    @pipeline
    def two(sample):
        image = toys.crop(sample.image, side=77, stream="elsewhere")
        image = toys.flip(image, p=0.125, stream="else")
        return {"pixels": image, "n": sample.label * 7 + 0.25}

    @pipeline
    def three(sample):
        return {"image": toys.crop(toys.flip(sample.image), side=32), "n": sample.label * 2 + 1.5}

    plans = [bind(p.graph(), varied) for p in (one, two, three)]
    keys = [build_key(write_glue(plan)) for plan in plans]
    assert keys[0] == keys[1] != keys[2]
    assert len({plan.pipeline_id for plan in plans}) == 3
    assert compile_plan(plans[0]).source == compile_plan(plans[1]).source
    frozen = compile_plan(plans[0], {"toy_crop": 3})
    assert frozen.source.name == f"glue_{keys[0]}.py"


def test_source_is_short_readable_and_needs_no_exec(toys, varied):
    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask)
        if sample.label > 3:
            image = toys.shift(image)
        return {"image": image, "mask": mask}

    text = compile_plan(bind(train.graph(), varied)).source.read_text()
    assert "draw_toy_crop(key_of(rows[r], streams[0])" in text
    assert "lookup('toy_crop').kernels['mask'].run" in text
    assert text.count("\n") < 70
    assert "exec(" not in text
    assert __file__ not in text


def test_damaged_glue_is_replaced(toys, varied):
    plan = bind(pipeline(lambda s: {"x": toys.crop(s.image, side=9)}).graph(), varied)
    source = compile_plan(plan).source
    text = source.read_text()
    source.write_text(text[:100])
    assert compile_plan(plan).source.read_text() == text
    assert not list(source.parent.glob("*.tmp"))


def test_cache_that_cannot_be_written(toys, varied, tmp_path, kernel_cache):
    plan = bind(pipeline(lambda s: {"x": toys.crop(s.image, side=9)}).graph(), varied)
    (tmp_path / "file").write_text("")
    set_cache_root(tmp_path / "file" / "below")
    try:
        with pytest.raises(ResourceError, match=r"kernel cache .*below.*: cannot write there"):
            compile_plan(plan)
    finally:
        set_cache_root(kernel_cache)


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
from stoker.ops.contract import Kernel, Op
from stoker.ops.registry import register
from stoker.rng.jit import kernel
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
from stoker.rng.jit import kernel
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
    from stoker.pipeline.executor import compile_plan
    from stoker.rng.jit import set_cache_root
    set_cache_root(sys.argv[2])
    train = pipeline(lambda sample: {"x": edited_op.Edited()(sample.image)})
    image = np.zeros((4, 4, 3), np.uint8)
    engine = compile_plan(train.plan_for({"image": image}))
    out = np.zeros((4, 4, 3), np.uint8)
    engine.run(Row(0, 0, 0), [image], [out])
    hits = sum(engine._function.stats.cache_hits.values())
    print(out[0, 0, 0], engine.source.name, hits)
""")


def run_program(folder, cache, **kwargs):
    command = [sys.executable, "-c", PROGRAM, str(folder), str(cache)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs
    )


def finish(process):
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    return out.split()


@pytest.mark.slow
def test_edits_and_damage_are_noticed_and_read_only_sources_and_races_work(tmp_path):
    sources, cache = tmp_path / "sources", tmp_path / "cache"
    sources.mkdir()
    (sources / "edited_op.py").write_text(OP_FILE)
    (sources / "offset.py").write_text(OFFSET_FILE.format(value=3))
    for path in [*sources.iterdir(), sources]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    # Two processes build at once; both are right, one file stays, and a third loads it.
    racers = [run_program(sources, cache) for _ in range(2)]
    results = [finish(process) for process in racers]
    assert [r[0] for r in results] == ["3", "3"]
    assert results[0][1] == results[1][1]
    value, name, hits = finish(run_program(sources, cache))
    assert (value, name, hits) == ("3", results[0][1], "1")
    assert [path.name for path in sorted((cache / "glue").glob("*.py"))] == [name]
    # Machine code is damaged, of kernels and glue: it is made again, and right.
    for file in cache.rglob("*.nbc"):
        file.write_bytes(b"damaged")
    assert finish(run_program(sources, cache)) == ["3", name, "0"]
    assert finish(run_program(sources, cache)) == ["3", name, "1"]
    # A kernel that the op's kernel calls, in another file, is edited: same size, same time stamp.
    stamp = (sources / "offset.py").stat().st_mtime_ns
    sources.chmod(0o755)
    (sources / "offset.py").chmod(0o644)
    (sources / "offset.py").write_text(OFFSET_FILE.format(value=4))
    os.utime(sources / "offset.py", ns=(stamp, stamp))
    edited = finish(run_program(sources, cache))
    assert edited[0] == "4"
    assert edited[1] != name
    shutil.rmtree(sources)


@pytest.mark.slow
def test_warm_and_cold_build_times(toys, varied):
    """CPU seconds, numba loaded: a new pipeline of known kernels, and one that is on disk."""
    program = textwrap.dedent("""
        import sys, time
        import numpy as np
        from numba.core.registry import cpu_target
        cpu_target.typing_context.refresh(); cpu_target.target_context.refresh()
        from stoker import ops
        from stoker.pipeline import pipeline
        from stoker.pipeline.executor import compile_plan
        from stoker.rng.jit import set_cache_root
        set_cache_root(sys.argv[1])
        fields = {"image": np.zeros((64, 64, 3), np.uint8), "mask": np.zeros((64, 64), np.uint8)}

        def known(sample):
            image, mask = ops.random_crop(sample.image, sample.mask, size=32)
            image, mask = ops.horizontal_flip(image, mask)
            return {"image": ops.normalize(image, mean=(0.5,) * 3, std=(0.5,) * 3), "mask": mask}

        def new(sample):
            image, mask = ops.horizontal_flip(sample.image, sample.mask)
            image, mask = ops.random_crop(image, mask, size=16)
            return {"image": ops.normalize(image, mean=(0.5,) * 3, std=(0.5,) * 3), "mask": mask}

        plan = pipeline(new if sys.argv[2] == "new" else known).plan_for(fields)
        start = time.process_time()
        compile_plan(plan)
        print(time.process_time() - start)
    """)

    def seconds(which):
        command = [sys.executable, "-c", program, str(cache_root()), which]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(result.stdout)

    seconds("known")
    cold, warm = seconds("new"), seconds("known")
    assert warm <= 0.3
    assert cold <= 2.0


def test_glue_names_all_its_kernels_and_holds_none(toys, varied):
    """Were the types of one call foretold wrongly, its kernel would be copied in, unnoticed."""

    @pipeline
    def train(sample):
        image, mask = ops.random_resized_crop(sample.image, sample.mask, size=24)
        if sample.label > 3:
            image, mask = ops.vertical_flip(*toys.crop(image, mask, side=20))
            image, mask = ops.resize(image, mask, size=24)
        image = toys.scale(toys.shift(image))
        return {"image": image, "mask": mask, "label": sample.label}

    plan = bind(train.graph(), varied)
    fast = compile_plan(plan)._function
    apart = [value for value in fast.py_func.__globals__.values() if isinstance(value, Apart)]
    symbols = {name for callee in apart for name in callee.symbols.values()}
    assert len(symbols) == len(set(calls_apart(plan))) > 10
    (signature,) = fast.overloads
    code = fast.overloads[signature].library._get_compiled_object()
    assert [name for name in symbols if name.encode() not in code] == []
