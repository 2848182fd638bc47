"""The kernel cache on disk: every edit is noticed, processes share it, damage is survived.

Every build happens in new processes, which import a temporary package.
"""

import json
import subprocess
from collections import Counter

import pytest
from warm import Script

from stoker.jit import compiling as jit

MODULES = {
    "__init__": "",
    "numbers_": "SCALE = 10\n",
    "leaf": ("from stoker.jit import kernel\n@kernel\ndef leaf(x):\n    return x + 1\n"),
    "middle": (
        "from stoker.jit import kernel\n"
        "from cached.leaf import leaf\n"
        "from cached.twin_plain import twinned\n"
        "@kernel\n"
        "def middle(x):\n"
        "    return leaf(x) * 2 + twinned(x)\n"
    ),
    "twin_plain": (
        "from stoker.jit import kernel\n"
        "@kernel(twin='cached.fast.twin_fast:twinned')\n"
        "def twinned(x):\n"
        "    return x * 0 + 500\n"
    ),
    "fast/__init__": "",
    "apart": "TENS = 50\n",
    "fast/twin_helper": "from cached.apart import TENS\nCONSTANT = 10 * TENS\n",
    "fast/twin_fast": (
        "from stoker.jit import handwritten\n"
        "from cached.fast.twin_helper import CONSTANT\n"
        "@handwritten\n"
        "def twinned(x):\n"
        "    return x * 0 + CONSTANT\n"
    ),
    "top": (
        "from stoker.jit import kernel\n"
        "from cached.middle import middle\n"
        "from cached.numbers_ import SCALE\n"
        "@kernel\n"
        "def top(x):\n"
        "    return middle(x) + SCALE * 1000\n"
    ),
}
CALL = """
    import sys
    sys.path.insert(0, sys.argv[1])
    from cached.top import top
    from stoker.jit import compiled, source_digest
    fast = compiled(top)
    print(fast(3), sum(fast.stats.cache_hits.values()), source_digest(top))
"""


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "source" / "cached"
    (folder / "fast").mkdir(parents=True)
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def call(python, package):
    """Call top(3) in a fresh process: (value, hits in the cache, source digest)."""

    def run(**environment):
        value, hits, digest = python(CALL, str(package.parent), warm=True, **environment).split()
        return int(value), int(hits), digest

    return run


@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_the_source_tree_stays_as_it_was(call, package):
    before = sorted(str(path) for path in package.rglob("*"))
    folders = [package.parent, package, package / "fast"]
    for folder in folders:
        folder.chmod(0o555)
    try:
        value, hits, digest = call()
        assert (value, hits) == (10508, 0)
        assert call() == (10508, 1, digest)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert sorted(str(path) for path in package.rglob("*")) == before


@pytest.mark.slow
def test_callees_of_stored_code_are_made_when_something_must_be_compiled(python, package):
    """A second process makes them for other types only."""
    program = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from cached.top import top
        from stoker.jit import compiling as jit
        fast = jit.compiled(top)
        for number in (3, 2.5):
            print(fast(number), sorted({fn.__name__ for fn in jit._callee_forms}))
    """
    run = python(program.replace(", 2.5", ","), str(package.parent), warm=True)
    assert run.splitlines() == ["10508 ['leaf', 'middle', 'twinned']"]
    run = python(program, str(package.parent), warm=True)
    assert run.splitlines() == ["10508 []", "10507.0 ['leaf', 'middle', 'twinned']"]


EDITS = [
    ("top", "SCALE * 1000", "SCALE * 2000", 20508),
    ("middle", "* 2", "* 3", 20512),
    ("leaf", "x + 1", "x + 2", 20515),
    ("fast/twin_fast", "0 + CONSTANT", "1 + CONSTANT", 20518),
    ("fast/twin_helper", "10 *", "12 *", 20618),
    ("apart", "50", "60", 20738),
    # A constant that is imported by value: in the name of the code, though not among the sources.
    ("numbers_", "10", "11", 22738),
]


@pytest.mark.slow
def test_every_edit_of_what_a_kernel_depends_on_is_noticed(call, package):
    value, _, digest = call()
    assert value == 10508
    for module, before, after, expected in EDITS:
        path = package / f"{module}.py"
        text = path.read_text()
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))
        value, hits, edited = call()
        assert (module, value, hits) == (module, expected, 0)
        assert (edited != digest) == (module != "numbers_")
        digest = edited
    for module, text in MODULES.items():
        (package / f"{module}.py").write_text(text)
    assert call()[:2] == (10508, 1)


@pytest.mark.slow
def test_an_edit_under_a_running_process_never_names_old_code_new(python, package, call):
    """A process with old code and the new file before it must not leave the one under the other."""
    script = """
        import pathlib, sys
        sys.path.insert(0, sys.argv[1])
        from cached.top import top
        from stoker.jit import compiled
        leaf = pathlib.Path(sys.argv[1]) / "cached" / "leaf.py"
        leaf.write_text(leaf.read_text().replace("x + 1", "x + 2"))
        print(compiled(top)(3))
    """
    assert python(script, str(package.parent), warm=True) == "10508"
    assert call()[:2] == (10510, 0)


@pytest.mark.slow
def test_code_is_found_wherever_its_source_is(call, package, python, tmp_path):
    digest = call()[2]
    moved = tmp_path / "elsewhere"
    package.parent.rename(moved)
    value, hits, other = python(CALL, str(moved), warm=True).split()
    assert (int(value), int(hits), other) == (10508, 1, digest)


def test_disabling_numba_gives_the_same_numbers(python, package):
    script = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from cached.top import top
        from stoker.rng import draws, streams
        from stoker.jit import compiled
        assert compiled(top) is top
        key = streams.make_key(1, 2, 3, 4)
        print(compiled(top)(3), compiled(draws.normal)(key, 0) == draws.normal(key, 0))
    """
    assert python(script, str(package.parent), NUMBA_DISABLE_JIT="1") == "10508 True"


RACE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from cached.top import top
from stoker.jit import compiled
fast = compiled(top)
kind = getattr(np, sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
result = fast(kind(3))
print(result, flush=True)
"""
KINDS = ["int8", "int32", "float32", "float64"]


@pytest.fixture
def start(tmp_path):
    """Start processes that wait for a line before they go on; they end with the test."""
    begun = []

    def run(script, *args):
        builder = Script(
            *("-W", "error", "-c", script, *args),
            imports=["numba"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                "XDG_CACHE_HOME": str(tmp_path / "cache"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PATH": "/usr/bin:/bin",
            },
        )
        begun.append(builder)
        assert builder.stdout.readline() == "ready\n"
        return builder

    yield run
    for builder in begun:
        builder.kill()
        builder.wait()
        builder.stdin.close()
        builder.stdout.close()


def go(builder):
    builder.stdin.write("\n")
    builder.stdin.flush()


@pytest.mark.slow
def test_processes_that_build_at_once_leave_a_whole_cache(package, start, python):
    """Four signatures of one kernel are saved at the same moment: all must be found again."""
    builders = [start(RACE, str(package.parent), kind) for kind in KINDS]
    for builder in builders:
        go(builder)
    answers = [float(builder.communicate(timeout=120)[0]) for builder in builders]
    assert answers == [10508.0] * len(KINDS)
    script = """
        import json, sys
        sys.path.insert(0, sys.argv[1])
        import numpy as np
        from cached.top import top
        from stoker.jit import compiled
        fast = compiled(top)
        values = [float(fast(getattr(np, kind)(3))) for kind in json.loads(sys.argv[2])]
        print(json.dumps([values, sum(fast.stats.cache_hits.values())]))
    """
    values, hits = json.loads(python(script, str(package.parent), json.dumps(KINDS), warm=True))
    assert values == answers
    assert hits == len(KINDS)


COUNT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from cached.top import top
from cached.leaf import leaf
from stoker.jit import compiling as jit
print("ready", flush=True)
sys.stdin.readline()
fast, inner = jit.compiled(top), jit.compiled(leaf)
assert (fast(3), inner(3), fast(2.5)) == (10508, 4, 10507.0)
made = {}
for form, forms in (("outer", jit._done), ("inside", jit._callee_forms)):
    for fn, one in forms.items():
        if jit.mark_of(fn).twin is None:
            made[f"{form} {fn.__module__}"] = sum(one.stats.cache_misses.values())
print(json.dumps(made))
"""


@pytest.mark.slow
def test_processes_that_start_at_once_compile_each_kernel_once(package, start, tmp_path):
    """Whoever comes second waits for the code; that of callees too."""
    builders = [start(COUNT, str(package.parent)) for _ in range(3)]
    for builder in builders:
        go(builder)
    counts = [json.loads(builder.communicate(timeout=120)[0]) for builder in builders]
    total = Counter()
    for count in counts:
        total.update(count)
    expected = {"outer cached.top": 2, "outer cached.leaf": 1}
    callees = ("leaf", "middle", "fast.twin_fast")
    assert total == expected | {f"inside cached.{name}": 2 for name in callees}
    assert len([*(tmp_path / "cache").rglob("*.nbc")]) == total.total()


EDITED_MEANWHILE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from cached.twin_plain import twinned
from cached.top import top
from stoker.jit import compiled
compiled(twinned)(3)  # imports the twin
file = Path(sys.argv[1], "cached", "fast", "twin_helper.py")
file.write_text(file.read_text().replace("10", "12"))
print(compiled(top)(3))
"""


@pytest.mark.slow
def test_a_twin_that_is_edited_under_a_running_process(package, call, python):
    """The process has imported the old code, and must not store it as that of the new file."""
    assert python(EDITED_MEANWHILE, str(package.parent), warm=True) == "10508"
    assert call()[0] == 10608


HOLD = """
import sys
sys.path.insert(0, sys.argv[1])
from cached.top import top
from stoker.jit import compiling as jit
from stoker.jit import diskcache
def wait(*_):
    print("ready", flush=True)
    sys.stdin.readline()
diskcache.SharedCache.save_overload = wait
jit.compiled(top)(3)
"""


@pytest.mark.slow
def test_a_process_killed_while_it_compiles_delays_no_other(package, start, call, python):
    """While it lives, it delays no process that needs another kernel."""
    holder = start(HOLD, str(package.parent))  # has compiled a callee, and has not saved it
    other = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from cached.leaf import leaf
        from stoker.jit import compiled
        print(compiled(leaf)(3))
    """
    assert python(other, str(package.parent), warm=True) == "4"
    holder.kill()
    holder.wait()
    assert call()[:2] == (10508, 0)


@pytest.mark.slow
def test_a_damaged_cache_is_rebuilt(call, tmp_path):
    digest = call()[2]
    for suffix, content in [(".nbi", b""), (".nbc", b""), (".nbc", b"\x80\x04garbage")]:
        files = [*(tmp_path / "cache").rglob(f"*{suffix}")]
        assert files
        for path in files:
            path.write_bytes(content)
        assert call() == (10508, 0, digest)
    assert call() == (10508, 1, digest)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_flipped_bit_anywhere_is_noticed_and_never_run(call, tmp_path, suffix):
    digest = call()[2]
    for part in (0.0, 0.2, 0.5, 0.8, 0.999):
        files = [*(tmp_path / "cache").rglob(f"*{suffix}")]
        assert files
        for path in files:
            content = bytearray(path.read_bytes())
            content[int(part * len(content))] ^= 16
            path.write_bytes(content)
        assert call() == (10508, 0, digest)
    assert call() == (10508, 1, digest)


def test_importing_makes_no_folder_and_takes_no_lock(python, tmp_path):
    """Modules of kernels, of hand-written twins, and those that call them by address."""
    cache = tmp_path / "cache"
    script = """
        import importlib, pkgutil
        names = []
        for top in ("compat", "dataset", "jit", "ops", "order", "pipeline", "rng", "server"):
            package = importlib.import_module("stoker." + top)
            for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
                if not module.name.endswith("__main__"):
                    importlib.import_module(module.name)
                    names.append(module.name)
        print(*names)
    """
    names = python(script, cache=cache).split()
    twins = {
        "stoker.rng.compiled",
        "stoker.order.compiled_permutation",
        "stoker.pipeline.compiled.loop",
    }
    assert twins < {*names}
    assert not cache.exists()


def test_no_module_of_randomness_or_order_imports_numba(python):
    script = """
        import sys
        import stoker.jit, stoker.rng.streams, stoker.rng.draws, stoker.rng.maths
        import stoker.rng.normals, stoker.rng.philox, stoker.jit.sources, stoker.jit.diskcache
        import stoker.order.permutation, stoker.order.compose
        from stoker.jit import source_digest
        digest = source_digest(stoker.rng.draws.normal)
        heavy = [name for name in sys.modules if name.partition(".")[0] in ("numba", "llvmlite")]
        print(digest, heavy)
    """
    digest, heavy = python(script).split(" ", 1)
    assert heavy == "[]"
    assert digest == jit.source_digest(__import__("stoker.rng.draws", fromlist=["x"]).normal)
