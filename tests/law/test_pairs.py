"""Every pair of options of a stream is in a stream of the Law, or in the table of refusals.

The options are those that are declared: a new one fails here until streams of the Law have it.
"""

import itertools
from collections.abc import Set

import pytest
from law_streams import STREAMS, used

from stoker.protocol.request.option_refusals import CHOICES, REFUSALS
from stoker.protocol.request.stream_options import STREAM_OPTIONS

IN_EVERY_STREAM = {"batch_size", "global_batch_size", "seed"}
OPTIONS = STREAM_OPTIONS.keys() - IN_EVERY_STREAM


def pairs(names: Set[str]) -> set[tuple[str, ...]]:
    return set(itertools.combinations(sorted(names), 2))


PROVED = set().union(*(pairs(used(name)) for name in STREAMS))
REFUSED = set().union(
    *(pairs({CHOICES[one.one].option, CHOICES[one.other].option}) for one in REFUSALS)
)


@pytest.mark.parametrize("pair", sorted(pairs(OPTIONS)), ids=" and ".join)
def test_a_pair_is_proved_or_refused(pair):
    assert pair in PROVED or pair in REFUSED, "no stream of the Law has both"
