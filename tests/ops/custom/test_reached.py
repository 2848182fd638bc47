"""The values that functions read: what counts for a pipeline's identity, and what does not."""

import importlib
import sys

import pytest

from stoker import ops
from stoker.ops.custom.provenance import provenance, values_of
from stoker.pipeline import pipeline

MAIN = """
import functools
import json
import os
import random
import time
from pathlib import Path

import numpy as np
import reached_pkg.part as part
from reached_pkg.part import K, Scaled, deeper
from reached_pkg import *

HERE = Path(__file__).parent
TABLE = json.loads((HERE / "table.json").read_text())
ARRAY = np.load(HERE / "array.npy")
STEPS = [len, {"add": lambda image: image + NESTED}]
NESTED = ARRAY[0].item()
MEMORY = {}
CALLS = 0
STARTED = time.time()


def by_name(image):
    return image * 0 + K


def by_module(image):
    return image * 0 + part.K


def by_star(image):
    return image * 0 + STAR


def by_json(image):
    return image * 0 + TABLE["deep"][0]["level"]


def by_array(image):
    return image * 0 + ARRAY


def by_default(image, level=TABLE["deep"][0]["level"]):
    return image * 0 + level


def around(level):
    def inner(image):
        return image * 0 + level

    return inner


by_closure = around(K)
by_partial = functools.partial(by_default, level=K)
by_object = Scaled(K)


def by_function(image):
    return deeper(image)


def by_instance(image):
    return by_object(image)


def by_container(image):
    return STEPS[1]["add"](image)


@functools.cache
def kept():
    return ARRAY.sum()


def by_cached(image):
    return image + kept()


def inside(image):
    from reached_pkg.part import K

    return image * 0 + K


def with_memory(image):
    global CALLS
    CALLS += 1
    MEMORY[image.shape] = MEMORY.setdefault("last", STARTED_ELSEWHERE)
    return image


class Counting:
    def __init__(self, level):
        self.level, self.calls, self.seen = level, 0, []

    def __call__(self, image):
        self.calls += 1
        self.seen.append(image)
        return image * self.level


counting = Counting(K)


def with_surroundings(image):
    return image if os.environ and random and HERE and __file__ else None


STARTED_ELSEWHERE = 0
"""

PART = """
K = {level}


class Scaled:
    FACTOR = {level}

    def __init__(self, level):
        self.level = level

    def __call__(self, image):
        return image * self.level


def deeper(image):
    return image * K
"""

COUNTED = [
    "by_name",
    "by_module",
    "by_star",
    "by_json",
    "by_array",
    "by_default",
    "by_closure",
    "by_partial",
    "by_object",
    "by_function",
    "by_instance",
    "by_container",
    "by_cached",
    "inside",
]


def write(folder, level, code=None):
    """Write the modules; `code` is the level of the package's source, the other of the data."""
    (folder / "reached_pkg").mkdir(parents=True, exist_ok=True)
    (folder / "reached_main.py").write_text(MAIN)
    (folder / "reached_pkg/__init__.py").write_text("from .star import STAR\n")
    (folder / "reached_pkg/star.py").write_text(f"STAR = {code or level}\n")
    (folder / "reached_pkg/part.py").write_text(PART.format(level=code or level))
    (folder / "table.json").write_text(f'{{"deep": [{{"level": {level}}}]}}')
    numpy = importlib.import_module("numpy")
    numpy.save(folder / "array.npy", numpy.array([level], "uint8"))


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Import the modules of a folder as a new process would."""

    def fresh(level, folder="one", code=None):
        write(tmp_path / folder, level, code)
        for name in [name for name in sys.modules if name.startswith("reached_")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(tmp_path / folder))
            return importlib.import_module("reached_main")

    yield fresh
    for name in [name for name in sys.modules if name.startswith("reached_")]:
        del sys.modules[name]


def sources(module, names):
    return {name: provenance("reached_main", getattr(module, name)).source for name in names}


def test_every_way_to_a_value_counts(fresh):
    first = sources(fresh(1), COUNTED)
    assert sources(fresh(1, "elsewhere"), COUNTED) == first
    second = sources(fresh(2), COUNTED)
    assert [name for name in COUNTED if first[name] == second[name]] == []


def test_data_alone_count_where_they_are_read(fresh):
    read = ["by_json", "by_array", "by_default", "by_partial", "by_container", "by_cached"]
    others = [name for name in COUNTED if name not in read]
    first, second = (sources(fresh(level, code=7), COUNTED) for level in (1, 2))
    assert [name for name in read if first[name] == second[name]] == []
    assert [name for name in others if first[name] != second[name]] == []


def test_memory_of_functions_and_surroundings_do_not_count(fresh):
    module = fresh(1)
    names = ["with_memory", "with_surroundings", "counting"]
    before = sources(module, names)
    module.with_memory(module.ARRAY)
    module.counting(module.ARRAY)
    assert sources(module, names) == before
    module.counting.level = 5
    assert sources(module, ["counting"])["counting"] != before["counting"]
    assert set(values_of("reached_main", module.with_memory)) == {"reached_main.STARTED_ELSEWHERE"}


def test_a_value_that_another_module_changes_is_another_pipeline(fresh):
    ids = []
    for level in (1, 2):
        module = fresh(level, code=7)
        made = pipeline(
            lambda s, f=module.by_json: {"x": ops.python(f, s.image, randomness="none")}
        )
        ids.append(made.pipeline_id)
    assert ids[0] != ids[1]
