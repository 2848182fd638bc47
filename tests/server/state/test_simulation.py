"""The seeded world: hundreds of schedules with faults, each event checked, failures replayable."""

import time
from collections import Counter

import pytest

EVERYTHING = (
    "BuildFailed", "SlabRefused", "ChunkFailed", "LifelineDown", "StopAsked", "KillWorker",
    "WorkerDown", "hang", "undead", "worker_given_up", "stream_stopped", "session_ended",
    "FreeSlab", "Exit", "error sample", "error protocol", "error resource", "error build",
    "error stream_stopped", "sample_crashed", "Recalled", "BuildDied", "EndBuild", "build_hangs",
    "goes on after all", "shared seek", "error usage", "resized", "error access", "worker_retired",
)  # fmt: skip


def play(simulation, seeds):
    """Play the seeds; each tenth one is handled once more by another core, event by event."""
    seen = Counter()
    for seed in seeds:
        try:
            world = simulation.World(seed).play()
            if seed % 10 == 0:
                simulation.replay(world)
        except Exception as error:
            error.add_note(f"replay it: python tests/server/state/simulation.py {seed}")
            raise
        seen += world.seen
    return seen


def test_worlds(simulation):
    assert play(simulation, range(30))["ChunkDone"] > 1000


@pytest.mark.slow
def test_more_worlds_see_it_all(simulation, record_property):
    """Without a look at what happened, worlds could pass by never getting there."""
    began = time.process_time()
    worlds = range(1000, 1140)
    seen = play(simulation, worlds)
    assert not [what for what in EVERYTHING if not seen[what]]
    assert seen["ChunkDone"] > 10000
    handled = sum(seen[kind.__name__] for kind in simulation.EVENTS)
    took = time.process_time() - began
    record_property("interleavings_per_second", int(handled / took))
    record_property("schedules_per_second", int(len(worlds) / took))
    assert handled / took > 1000, "see the docstring of simulation.py"


def test_the_same_seed_gives_the_same_world(simulation):
    first, second = (simulation.World(9).play().history for _ in range(2))
    assert first == second
    assert len(first) > 100
