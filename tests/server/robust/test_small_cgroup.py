"""A daemon in a memory cgroup that is small: what does not fit is refused or dies alone."""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from cgroups import memory_group

from stoker.dataset import open_dataset
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import ResourceError, StreamStoppedError

pytestmark = pytest.mark.slow
CULPRIT = 7
LIMIT_BYTES = 384 * 2**20
PAUSE_S = 15.0
"""Until both of the first workers have filled the cgroup and died; without help it was a minute."""


def test_a_small_cgroup_refuses_with_its_numbers_and_loses_workers_alone(
    serve, loader, small_dataset
):
    """The kernel kills workers that hoard; the daemon and the other client go on."""
    with open_dataset(small_dataset) as dataset:
        victim = int(dataset.read("image", CULPRIT).sum())
    with memory_group(LIMIT_BYTES) as group:
        daemon = serve(
            "--memory-limit=8GiB",
            prefix=group.prefix,
            environment={"STOKER_TEST_HOARD": str(victim)},
        )
        assert daemon.ready == {"address": daemon.address}, daemon.log.read_text()
        with pytest.raises(ResourceError, match=r"cgroup") as caught:
            loader(daemon, "wide", batch_size=10, prefetch=64)
        assert caught.value.details["needed_bytes"] > LIMIT_BYTES
        assert f"{group.folder}/memory" in caught.value.message
        with loader(daemon) as honest:
            first = [batch.label.tolist() for batch in honest]
            with loader(daemon, "hoards") as greedy, pytest.raises(StreamStoppedError) as stopped:
                list(greedy)
            assert stopped.value.details["id"] == CULPRIT
            assert re.search(r"sample \d+.*(SIGKILL|killed)", stopped.value.message)
            assert group.kills() >= 2  # the sample was tried twice
            honest.set_epoch(0)
            assert [batch.label.tolist() for batch in honest] == first
        assert daemon.stop() == 0


def test_a_stream_beyond_the_cgroup_costs_its_neighbor_no_minute(serve, loader, expected) -> None:
    """Each of its rows has its worker killed. One worker is set apart for it; the other goes on."""
    with memory_group(LIMIT_BYTES) as group:
        daemon = serve("--memory-limit=8GiB", prefix=group.prefix)
        with loader(daemon) as neighbor, loader(daemon, "huge") as greedy:
            digests, ends = [], threading.Event()

            def end() -> str:
                with pytest.raises(StreamStoppedError, match=r"killed by SIGKILL") as stopped:
                    next(iter(greedy))
                ends.set()
                return stopped.value.message

            with ThreadPoolExecutor(1) as thread:
                ended, longest_s, epochs = thread.submit(end), 0.0, 0
                while not ends.wait(0.05):  # without a pause the neighbor would burn a CPU
                    began = time.monotonic()
                    digests = [batch_digest(batch, batch.epoch, batch.step) for batch in neighbor]
                    longest_s, epochs = max(longest_s, time.monotonic() - began), epochs + 1
                assert ended.result()
            assert group.kills() >= 8
            assert digests == expected("labels", epochs)[-len(digests) :]
            assert longest_s < PAUSE_S
        assert daemon.stop() == 0
