"""Storms: everything is killed at random while streams are read; not one byte may differ.

See `storm`. STOKER_STORMS sets how many storms of `KILLS` kills there are, STOKER_STORMS_FROM the
first seed; `make torture` draws it and plays 1,000 kills.
"""

import inspect
import os
import random

import pytest
from hosts import KEYS, LOCAL, OPEN, Hosts, plan
from loading import CONNECTION
from options import ORDER, OTHERS, ROWS, WRITTEN
from storm import Storm
from streams import USUAL, Streams, draw_batches

from stoker.client import Loader
from stoker.protocol.request.stream_options import STREAM_OPTIONS

FIRST = int(os.environ.get("STOKER_STORMS_FROM", "0"))
USUAL_STORMS = 6
STORMS = int(os.environ.get("STOKER_STORMS", USUAL_STORMS))
KILLS = 35
FIRST_LONG = 10
"""Storms from this seed on draw from 1,000 random pipelines, which compile for minutes; in them a
disk may also be full before a stream opens."""
FULL_FIRST = 0.04


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=[pytest.mark.as_a_user] if seed == FIRST else [])
        for seed in range(FIRST, FIRST + STORMS)
    ],
)
def test_storm(tmp_path, stormy, seed, record_property):
    is_long = seed >= FIRST_LONG
    with Hosts(tmp_path, stormy, seed) as hosts:
        streams = Streams(stormy, 1000 if is_long else USUAL)
        storm = Storm(seed, tmp_path, hosts, streams, FULL_FIRST if is_long else 0.0)
        storm.play(KILLS)
    assert storm.kills >= KILLS
    record_property("events", dict(storm.events))


def test_storms_draw_every_argument_of_a_loader_but_these():
    options = {WRITTEN.get(name, name) for name in (*ORDER, *ROWS)}
    drawn = options | draw_batches(random.Random(0)).keys()
    drawn |= {"dataset", "mix", "pipeline", "buckets", "on_error"}  # with the pipeline
    drawn |= {"rank", "world_size", "prefetch", "verify", "address_or_path"}
    drawn |= {
        "group",
        "group_size",
        "mode",
        "timeout_s",
        "key",
        "daemon_key",
    }  # see `loading.grouped`
    taken = inspect.signature(Loader).parameters.keys() - {"unknown", "connection"}
    taken |= {"shuffle_seed", "shuffle_block_size", "group_size", "mode", *CONNECTION}
    assert taken - drawn == {
        "batch_size", "drop_last",  # others name the same
        "device", "on_device", "as_tuple", "as_dict",  # where batches go
        "connect_timeout_s", "reconnect_s",  # for how long to wait
        "workers",  # of private daemons
        "name",  # for the log
    }  # fmt: skip


def test_every_declared_option_of_a_stream_is_drawn():
    assert ORDER.keys() | ROWS.keys() | OTHERS == STREAM_OPTIONS.keys()


def test_the_usual_storms_have_all_kinds_of_daemons():
    found = {(len(drawn), link) for drawn, link in map(plan, range(USUAL_STORMS))}
    assert found == {(count, link) for count in (1, 2) for link in (LOCAL, OPEN, KEYS)}
