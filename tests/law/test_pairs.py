"""Every pair of options of a stream is in a stream of the Law, or in the table of refusals.

A subset is an exclude list of all other samples, so what holds for `exclude` holds for it. Draw
records (`params`) are one more output, which changes no byte of the others.
"""

import itertools

import pytest
from tests.law.test_law import STREAMS
from tests.law.test_mix import MIXES

from stoker.protocol.request.option_refusals import OPTIONS, REFUSALS

FIELDS = {
    "shuffle_block_size": "block", "shuffle_seed": "order seed", "weights": "weights",
    "exclude": "exclude", "buckets": "buckets", "freeze": "freeze", "total_epochs": "total_epochs",
}  # fmt: skip
ELSEWHERE = {
    ("mix", "pad"): "an epoch of a mixture has no incomplete batch: the datasets go on",
}
"""Pairs that need no stream of their own."""


def options(fields: dict) -> set[str]:
    """The options that a stream of the Law's tables has."""
    order = fields.get("order")
    found = {name for field, name in FIELDS.items() if fields.get(field)}
    if order is not None:
        found |= {"block"} if order.block else set()
        found |= {"order seed"} if order.seed is not None else set()
    if fields.get("shuffle") is False or (order is not None and not order.shuffle):
        found.add("no shuffle")
    if fields.get("views", 1) > 1:
        found.add("views")
    if fields.get("tail") == "pad":
        found.add("pad")
    if fields.get("on_error", "raise") != "raise":
        found.add("on_error")
    return found


def pairs(names: set[str]) -> set[tuple[str, ...]]:
    return set(itertools.combinations(sorted(names), 2))


STREAM_OPTIONS = {
    *FIELDS.values(), "no shuffle", "views", "pad", "on_error", "mix",
}  # fmt: skip
PROVED = set().union(
    *(pairs(options(fields)) for fields in STREAMS.values()),
    *(pairs(options(fields) | {"mix"}) for _, _, fields in MIXES.values()),
)


@pytest.mark.parametrize("pair", sorted(pairs(STREAM_OPTIONS)), ids=" and ".join)
def test_a_pair_is_proved_or_refused(pair):
    refused = {tuple(sorted((one.one, one.other))) for one in REFUSALS if not one.unless}
    found = [pair in PROVED, pair in refused, pair in ELSEWHERE]
    assert sum(found) == 1, f"{pair}: in a stream of the Law, refused, elsewhere: {found}"


def test_every_option_of_the_table_is_walked():
    assert set(OPTIONS) - {"subset", "params"} <= STREAM_OPTIONS
