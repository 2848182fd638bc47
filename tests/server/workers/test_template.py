"""The template: what it prepares before it forks, and the order of its forks."""

import importlib.util
import os
import subprocess
import sys
from types import ModuleType

import msgspec
import pytest
from asking import to_build

from stoker.jit import compiler_tables
from stoker.server.daemon.launch import PINNED
from stoker.server.work.work_records import AddSlab
from stoker.server.workers.template import ForkChild, most_urgent

PRELOADED = """
import gc, sys
from stoker.jit import set_cache_root
from stoker.server.workers import template

set_cache_root(sys.argv[1])
template.preload()
template.assert_clean()
assert gc.isenabled()
assert gc.get_freeze_count() > 100_000
assert not [name for name in sys.modules if name.startswith("scipy.linalg")]
"""
USED = """
import mmap, os, sys
import msgspec
from stoker.jit import set_cache_root
from stoker.server.workers import builder, worker
from stoker.server.workers.child_config import PROGRESS_BYTES, WorkerConfig
from stoker.server.work.work_records import AddSlab, BuildRequest, OpenStream, Work

build, opened, slab, work = (
    msgspec.msgpack.decode(bytes.fromhex(text), type=kind)
    for text, kind in zip(sys.argv[2:], (BuildRequest, OpenStream, AddSlab, Work), strict=True)
)
set_cache_root(sys.argv[1])
before = set(sys.modules)
builder.build(build)
one = worker.Worker(WorkerConfig(1, 0, 1, sys.argv[1], ""), mmap.mmap(-1, PROGRESS_BYTES))
memory = os.memfd_create("slab")
os.ftruncate(memory, slab.size_bytes)
one.handle(slab, memory)
assert one.handle(opened, None) is None
assert one.handle(work, None).claim == 1
print(sorted(set(sys.modules) - before))
"""
TYPED = """
from numba.core.registry import cpu_target
import numpy as np
from stoker.jit import compiler_tables
from stoker.server.daemon.launch import PINNED

compiler_tables.fill_tables()
import sys
assert compiler_tables.BLAS not in sys.modules
import numba
product = numba.njit(lambda a, b: np.dot(a, b))
print(product(np.eye(2) * 3, np.eye(2)).tolist(), compiler_tables.BLAS in sys.modules)
"""


def python(script, *arguments):
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False,
        timeout=170, env={**os.environ, **PINNED},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.slow
def test_a_child_imports_nothing_more(kernel_cache, stream_of, work_of):
    opened = stream_of()
    records = (
        to_build(1, opened.served.sources[0].dataset, "", opened.served.sources[0].graph),
        opened,
        AddSlab(1, opened.layout.slot_bytes),
        work_of(opened),
    )
    texts = [msgspec.msgpack.encode(record).hex() for record in records]
    python(USED, str(kernel_cache), *texts)  # what compiles imports more, so that is done before
    assert python(PRELOADED + USED, str(kernel_cache), *texts) == "[]"


@pytest.mark.slow
def test_code_that_multiplies_matrices_finds_the_blas():
    assert python(TYPED) == "[[3.0, 0.0], [0.0, 3.0]] True"


def test_a_blas_that_is_loaded_stays(monkeypatch):
    loaded = ModuleType(compiler_tables.BLAS)
    monkeypatch.setitem(sys.modules, compiler_tables.BLAS, loaded)
    with compiler_tables.empty_blas_module():
        assert sys.modules[compiler_tables.BLAS] is loaded
    assert sys.modules[compiler_tables.BLAS] is loaded


def test_without_scipy_there_is_no_blas(monkeypatch):
    monkeypatch.delitem(sys.modules, compiler_tables.BLAS, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with compiler_tables.empty_blas_module():
        assert compiler_tables.BLAS not in sys.modules


def test_one_off_children_come_before_workers():
    asked = [
        ForkChild(1, "worker"),
        ForkChild(2, "worker"),
        ForkChild(3, "builder"),
        ForkChild(4, "replayer"),
    ]
    order = []
    while asked:
        order.append(asked.pop(most_urgent(asked)).child)
    assert order == [3, 4, 1, 2]
