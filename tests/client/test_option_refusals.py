"""Options that cannot be combined: a Loader refuses each pair of the table, and names both."""

import re

import pytest
from loading import grouped

from stoker.client import Buckets, Loader
from stoker.protocol.errors import UsageError
from stoker.protocol.request.option_refusals import CHOICES, REFUSALS

WAYS = {
    "block": {"shuffle_block_size": 7},
    "in order": {"shuffle": False},
    "dropped leftovers": {"buckets": Buckets(max_area=64 * 64, leftovers="drop")},
    "padded": {"last": "pad"},
    "short": {"last": "short"},
    "ranks": {"rank": 0, "world_size": 2},
    "mix": {"mix": {"photos": 1}},
    "name": {"dataset": "photos"},
    "group": {"group": "sweep"},
    "path": {},
}


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: f"{refusal[0]}, {refusal[1]}")
def test_a_loader_refuses_it_and_says_why(tmp_path, refusal):
    (tmp_path / "manifest.json").touch()
    one, other = (CHOICES[name] for name in (refusal.one, refusal.other))
    where = tmp_path if "path" in (refusal.one, refusal.other) else "ipc:///nowhere/stoker.sock"
    said = f"{one.argument} and {other.argument} cannot be combined, because {refusal.why}; "
    with pytest.raises(UsageError, match=re.escape(said + refusal.remedy)):
        Loader(
            where, pipeline="a:b", batch_size=4,
            **grouped(**WAYS[refusal.one], **WAYS[refusal.other]),
        )  # fmt: skip
