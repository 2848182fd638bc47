"""The template loads machine code of the last pipelines from the cache before it forks."""

import pytest

from stoker.jit import diskcache
from stoker.ops.bases.box_resize import box_reads
from stoker.ops.contract.templates import adapted
from stoker.order.permutation import permute, permute_into
from stoker.pipeline.compiled import adapters
from stoker.server.workers import recent_kernels

BUILD = """
import numpy as np
from stoker import ops
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.machine import address_of
from stoker.pipeline.compiled.program import write_program
from stoker.server.workers import recent_kernels

train = pipeline(lambda sample: {"image": ops.horizontal_flip(sample.image)})
plan = train.plan_for({"image": np.zeros((4, 5, 3), np.uint8)})
flips = ["stoker.ops.geometry.horizontal_flip:_run", "stoker.ops.bases.flips:draw_flip"]
print(recent_kernels.load(flips))
for call in write_program(plan).calls.values():
    address_of(call)
recent_kernels.remember()
"""
LOAD = """
import sys
from stoker.server.workers import recent_kernels

names = recent_kernels.remembered()
others = ["stoker.ops.none:nothing", "stoker.ops.geometry.resize:Resize"]
print(names, recent_kernels.load([*names, *others]))
from stoker.ops.geometry.horizontal_flip import _run
from stoker.jit import compiled
fast = compiled(_run)
assert fast.overloads and not fast.stats.cache_misses
assert not {"torch", "pyarrow", "zmq"} & set(sys.modules)
"""


@pytest.mark.slow
def test_the_next_process_loads_what_a_build_called(tmp_path, python):
    # Nothing is compiled where the cache has nothing.
    assert python(BUILD, cache=tmp_path, warm=True) == "0"
    called = ["stoker.ops.bases.flips:draw_flip", "stoker.ops.geometry.horizontal_flip:_run"]
    assert python(LOAD, cache=tmp_path) == f"{called} 2"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, []),
        ("{", []),
        ("3", []),
        (
            '["os:system", 3, "stoker.ops.bases.flips:draw_flip"]',
            ["stoker.ops.bases.flips:draw_flip"],
        ),
        ('["stoker.pipeline.compiled.adapters:box_by(os:system)"]', []),
    ],
)
def test_a_file_that_is_none_costs_nothing(tmp_path, monkeypatch, text, names):
    monkeypatch.setattr(diskcache, "_chosen", [tmp_path])
    if text is not None:
        (tmp_path / recent_kernels.FILE).write_text(text)
    assert recent_kernels.remembered() == names


@pytest.mark.parametrize("users", [True, False])
def test_tables_that_code_of_users_needs_are_filled_first(tmp_path, monkeypatch, users):
    monkeypatch.setattr(diskcache, "_chosen", [tmp_path])
    monkeypatch.setattr(recent_kernels, "addressed", list)
    monkeypatch.setattr(recent_kernels, "kernels_done", lambda: [permute_into])
    filled = []
    monkeypatch.setattr(recent_kernels, "fill_for_users", lambda: filled.append(True))
    for used in (not users, users):
        monkeypatch.setattr(recent_kernels, "are_for_users", lambda used=used: used)
        recent_kernels.remember()
    assert recent_kernels.remembered()[users:] == ["stoker.order.permutation:permute_into"]
    recent_kernels.load(recent_kernels.remembered())
    assert filled == [True] * users


def test_a_rule_that_was_adapted_is_found_by_its_name(tmp_path, monkeypatch):
    made = adapted(adapters.box_by, box_reads)
    monkeypatch.setattr(diskcache, "_chosen", [tmp_path])
    monkeypatch.setattr(recent_kernels, "addressed", lambda: [made])
    monkeypatch.setattr(recent_kernels, "are_for_users", lambda: False)
    recent_kernels.remember()
    name = "stoker.pipeline.compiled.adapters:box_by(stoker.ops.bases.box_resize:box_reads)"
    assert recent_kernels.remembered()[0] == name
    assert recent_kernels._found(name) is made


def test_callees_come_with_their_callers(tmp_path, monkeypatch):
    monkeypatch.setattr(diskcache, "_chosen", [tmp_path])
    monkeypatch.setattr(recent_kernels, "addressed", list)
    monkeypatch.setattr(recent_kernels, "kernels_done", lambda: [permute, permute_into])
    monkeypatch.setattr(recent_kernels, "are_for_users", lambda: False)
    recent_kernels.remember()
    assert recent_kernels.remembered() == ["stoker.order.permutation:permute_into"]


def test_at_most_so_many(tmp_path, monkeypatch):
    monkeypatch.setattr(diskcache, "_chosen", [tmp_path])
    (tmp_path / recent_kernels.FILE).write_text(
        str([f"stoker.x:{n}" for n in range(99)]).replace("'", '"')
    )
    assert len(recent_kernels.remembered()) == recent_kernels.MOST
