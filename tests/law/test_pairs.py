"""Every pair of options of a stream is in a stream of the Law, or in the table of refusals.

The options are those that are declared: a new one fails here until streams of the Law have it.
"""

import itertools
from collections.abc import Set

import pytest
from tests.law.test_law import STREAMS
from tests.law.test_mix import MIXES, options

from stoker.protocol.request.option_refusals import CHOICES, REFUSALS
from stoker.protocol.request.stream_options import STREAM_OPTIONS

IN_EVERY_STREAM = {"batch_size", "global_batch_size", "seed"}
DECLARED = {
    "shuffle_block_size": "Shuffle.block_size", "shuffle_seed": "Shuffle.seed",
    "tail": "drop_last", "last": "drop_last",
}  # fmt: skip
"""Names in the tables of streams -> those of the declarations, where they differ."""
USUAL = {"tail": "drop", "last": "drop"}
"""Values that mean the default of their declaration."""
NO_EFFECT = {
    ("drop_last", "mix"): "without buckets, an epoch of a mixture has no incomplete batch",
    **{
        tuple(sorted((name, "params"))): "draw records are one more output of any stream"
        for name in ("drop_last", "freeze", "on_error", "total_epochs", "views")
    },
    **{
        tuple(sorted((name, "subset"))): "a subset is the exclude list of all other samples"
        for name in ("drop_last", "freeze", "on_error", "total_epochs", "views")
    },
}
"""Pairs of which one option does not concern the other, so no stream has them for that alone."""


def used(arguments: dict) -> set[str]:
    """The options to which a stream gives another value than their default."""
    found = set()
    for name, value in arguments.items():
        option = DECLARED.get(name, name)
        if option in STREAM_OPTIONS and option not in IN_EVERY_STREAM:
            usual = USUAL.get(name, STREAM_OPTIONS[option].default)
            if value != usual and value is not None:
                found.add(option)
    return found


def pairs(names: Set[str]) -> set[tuple[str, ...]]:
    return set(itertools.combinations(sorted(names), 2))


PROVED = set().union(
    *(pairs(used(fields)) for fields in STREAMS.values()),
    *(pairs(used(options(name))) for name in MIXES),
)
REFUSED = set().union(
    *(pairs({CHOICES[one.one].option, CHOICES[one.other].option}) for one in REFUSALS)
)


@pytest.mark.parametrize("pair", sorted(pairs(STREAM_OPTIONS.keys() - IN_EVERY_STREAM)))
def test_a_pair_is_proved_or_refused(pair):
    found = pair in PROVED or pair in REFUSED or pair in NO_EFFECT
    assert found, f"no stream of the Law has {pair}"
