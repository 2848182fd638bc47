"""Storms: everything is killed at random while streams are read; not one byte may differ.

See `storm`. STOKER_STORMS sets how many storms of `KILLS` kills there are, STOKER_STORMS_FROM the
first seed; `make torture` draws it and plays 1,000 kills.
"""

import os
import random

import pytest
from daemons import Restarted
from law_rig import flags
from storm import USUAL, Storm

FIRST = int(os.environ.get("STOKER_STORMS_FROM", "0"))
STORMS = int(os.environ.get("STOKER_STORMS", "6"))
KILLS = 35
FIRST_LONG = 10
"""Storms from this seed on draw from 1,000 random pipelines, which compile for minutes."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORMS))
def test_storm(tmp_path, datasets, law, seed, record_property):
    workers = random.Random(seed).choice((1, 2, 3, 4))
    served = Restarted(tmp_path, *flags(tmp_path, datasets, workers))
    served.start()
    try:
        pipelines = USUAL if seed < FIRST_LONG else 1000
        storm = Storm(seed, tmp_path, served, datasets, law.reference, pipelines)
        storm.play(KILLS)
        served.stop()
    finally:
        served.close()
    assert storm.kills >= KILLS
    record_property("events", storm.events)
