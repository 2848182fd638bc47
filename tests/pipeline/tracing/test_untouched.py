"""A traced branch changes nothing from outside of it, by whatever way; what it makes is its own."""

from __future__ import annotations

import functools
import logging
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest

from stoker.pipeline import branching, one_of, pipeline, random_apply, some_of
from stoker.protocol.errors import BuildError

COUNTS = {"night": 0}
SEEN = 0
LOG = logging.getLogger("test_untouched")


def put(target, key, value):
    target[key] = value


def count():
    COUNTS["night"] += 1


def see():
    global SEEN  # noqa: PLW0603 - what is tested
    SEEN += 1


def collect(value, kept=[]):  # noqa: B006 - what is tested
    kept.append(value)


class Notes:
    __slots__ = ("last",)

    def note(self, value):
        self.last = value


class Kept:
    names: list[str] = []  # noqa: RUF012 - what is tested

    def __init__(self):
        self.values = []
        self.asked = {}

    def keep(self, value):
        self.values.append(value)
        return value

    def name(self):
        Kept.names.append("night")

    @functools.cached_property
    def side(self):
        return 3

    def ask(self):
        self.asked["side"] = self.side


def given_to_a_function(sample):
    made = {"x": sample.label}
    if sample.is_night:
        put(made, "x", sample.weight)
    return made


def below_what_is_given(sample):
    made = [{"x": [sample.label]}]
    if sample.is_night:
        put(made[0]["x"], 0, 2)
    return {"x": made[0]["x"][0]}


def added_in_place(sample):
    made = [sample.label]
    if sample.is_night:
        made += [1]
    return {"x": made[0]}


def by_another_name(sample):
    made = {"x": 1}
    if sample.is_night:
        other = made
        other["x"] = 2
    return {"x": sample.label + made["x"]}


def by_a_method_kept(sample):
    made = deque([1])
    add = made.append
    if sample.is_night:
        add(2)
    return {"x": sample.label + len(made)}


def by_a_slot_of_a_container(sample):
    made = {"x": 1}
    store = made.__setitem__
    if sample.is_night:
        store("x", 2)
    return {"x": sample.label + made["x"]}


def by_a_partial(sample):
    made = {"x": 1}
    change = functools.partial(put, made, "x")
    if sample.is_night:
        change(2)
    return {"x": sample.label + made["x"]}


def round_a_function(sample):
    kept = set()

    def keep(value):
        kept.add(value)

    if sample.is_night:
        keep(1)
    return {"x": sample.label + len(kept)}


def variable_round_a_function(sample):
    turns = 0

    def turn():
        nonlocal turns
        turns += 1

    if sample.is_night:
        turn()
    return {"x": sample.label + turns}


def of_the_module(sample):
    if sample.is_night:
        count()
    return {"x": sample.label}


def variable_of_the_module(sample):
    if sample.is_night:
        see()
    return {"x": sample.label}


def default_of_a_function(sample):
    if sample.is_night:
        collect(1)
    return {"x": sample.label}


def attribute_of_an_object(sample):
    kept = Kept()
    if sample.is_night:
        kept.keep(1)
    return {"x": sample.label + len(kept.values)}


def slot_of_an_object(sample):
    notes = Notes()
    if sample.is_night:
        notes.note(1)
    return {"x": sample.label}


def attribute_of_a_class(sample):
    kept = Kept()
    if sample.is_night:
        kept.name()
    return {"x": sample.label}


def attribute_of_a_namespace(sample):
    options = SimpleNamespace(side=1)
    change = functools.partial(setattr, options, "side")
    if sample.is_night:
        change(2)
    return {"x": sample.label + options.side}


def numbers_of_an_array(sample):
    weights = np.ones(2)
    if sample.is_night:
        put(weights, 0, 0.5)
    return {"x": sample.label + float(weights[0])}


def the_other_branch(sample):
    made = {"x": 1}
    if not sample.is_night:
        x = made["x"]
    else:
        put(made, "x", 2)
        x = made["x"]
    return {"x": sample.label + x}


def made_by_the_branch_round_it(sample):
    x = sample.label
    if sample.is_night:
        made = {"x": 1}
        if sample.label > 2:
            put(made, "x", 2)
        x = x + made["x"]
    return {"x": x}


def ternary(sample):
    made = []
    x = Kept.keep(SimpleNamespace(values=made), 2) if sample.is_night else 1
    return {"x": sample.label + x}


def conjunction(sample):
    kept = Kept()
    return {"x": sample.is_night and kept.keep(1) == 1}


def disjunction(sample):
    kept = Kept()
    return {"x": sample.is_night or kept.keep(1) == 1}


def chosen(choose):
    def body(sample):
        made = {}

        def alternative(image):
            put(made, "x", 1)
            return image

        return {"image": choose(sample.image, alternative)}

    return body


WAYS = [
    (given_to_a_function, "made"),
    (below_what_is_given, "made"),
    (added_in_place, "made"),
    (by_another_name, "made"),
    (by_a_method_kept, "add"),
    (by_a_slot_of_a_container, "store"),
    (by_a_partial, "change"),
    (round_a_function, "kept"),
    (variable_round_a_function, "turns"),
    (of_the_module, "COUNTS"),
    (variable_of_the_module, "SEEN"),
    (default_of_a_function, "kept"),
    (attribute_of_an_object, "kept.values"),
    (slot_of_an_object, "notes"),
    (attribute_of_a_class, "kept.names"),
    (attribute_of_a_namespace, "change"),
    (numbers_of_an_array, "weights"),
    (the_other_branch, "made"),
    (made_by_the_branch_round_it, "made"),
    (ternary, "made"),
    (conjunction, "kept.values"),
    (disjunction, "kept.values"),
    (chosen(lambda image, way: one_of(image, choices=[None, way])), "made"),
    (chosen(lambda image, way: some_of(image, choices=[None, [way]], n=1)), "made"),
    (chosen(lambda image, way: random_apply(image, apply=way)), "made"),
]


@pytest.mark.parametrize(("body", "name"), WAYS, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_changed_is_named_with_the_line(body, name):
    with pytest.raises(BuildError, match=r"in place\. Every branch is") as caught:
        pipeline(body).graph()
    assert f"decided for each sample, changes {name!r} in place" in caught.value.message
    assert f"test_untouched.py:{caught.value.details['line']}: a branch on " in str(caught.value)


@functools.lru_cache
def remembered(side):
    return side + 1


@branching
def filled(label):
    made = {}
    put(made, "x", 1)
    if label > 2:
        inner = dict(made)
        put(inner, "x", 2)
        made = inner
    return made


def test_what_a_branch_makes_may_change():
    """So may what Python's conditions change, and what no sample sees: a cache, a logger."""
    asked = Kept()
    logging.Logger.manager._clear_cache()

    @pipeline
    def train(sample):
        kept, made = Kept(), {"x": 0}
        if made["x"] == 0:
            put(made, "x", 1)
        if sample.is_night:
            LOG.debug("night")
            inner = Kept()
            inner.keep(remembered(asked.side))
            inner.ask()
            made = {"x": filled(sample.label)["x"] + inner.values[0] + inner.asked["side"]}
        kept.keep(made["x"])
        return {"x": kept.values[0]}

    for night, label, expected in ((True, 9, 9), (True, 1, 8), (False, 9, 1)):
        assert train({"is_night": np.bool_(night), "label": label})["x"] == expected


def test_a_pipeline_within_a_branch_is_followed():
    kept = []

    def keep(value):
        kept.append(value)

    @pipeline
    def inner(sample):
        keep(1)
        return {"x": sample.label}

    def body(sample):
        x = inner(sample)["x"] if sample.is_night else 2
        return {"x": x}

    with pytest.raises(BuildError, match="changes 'kept' in place"):
        pipeline(body).graph()
