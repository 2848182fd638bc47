"""Checks that the ranks of a job open the same stream, through the store of `torch.distributed`.

Batches are cut by rank, so ranks whose streams differ get rows twice, or miss some, without any
other sign. A rank writes its spec into the store and reads those of the others. These are not
collective operations: an opening waits at most `WAIT_S` for other ranks, and then goes on. Ranks
that come later are compared once more when the first epoch begins.

`CallSite` decides which loaders of different ranks belong together. Only ranks that were taken from
torch.distributed are compared here, others by the daemon: see `launcher`. Rank 0 compares itself
with every other rank, the others with rank 0 alone, so the store gets few requests from large jobs.

Runs in the caller's thread.
"""

import contextlib
import json
import time
from typing import Final

from stoker.client.ranks.call_site import CallSite
from stoker.client.ranks.forked_ranks import default_store
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import StreamSpec, differences

WAIT_S = 5.0
"""Seconds that an opening waits for other ranks that open a loader in the same lines."""
_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.5
_GROWTH: Final = 1.5


class RankStreams:
    """The streams of the other ranks, as far as they are known."""

    def __init__(self, spec: StreamSpec, rank: int, world_size: int, place: CallSite) -> None:
        """Publish the stream of this rank, and wait a moment for the others.

        Args:
            spec: the stream that this rank opened.
            rank: this rank.
            world_size: number of ranks.
            place: where the loader was made.

        Raises:
            UsageError: another rank opened another stream.
        """
        self._spec, self._rank = spec, rank
        self._store = default_store(world_size)
        self._missing: list[int] = []
        if self._store is None:
            return
        self._line = f"{place.line}, loader {place.number} of that line"
        self._prefix = f"stoker/streams/{place.name}"
        self._missing = [0] if rank else list(range(1, world_size))
        until = time.monotonic() + WAIT_S
        with contextlib.suppress(RuntimeError):  # the store is gone, and the job with it
            self._store.set(f"{self._prefix}/{rank}", json.dumps(spec.to_data()))
            self._compare()
            pause_s = _FIRST_PAUSE_S
            while self._missing and time.monotonic() < until:
                time.sleep(pause_s)
                pause_s = min(_GROWTH * pause_s, _LONGEST_PAUSE_S)
                self._compare()

    def check(self) -> None:
        """Compare once more with ranks that had not come yet; costs nothing if all had.

        Raises:
            UsageError: another rank opened another stream.
        """
        if self._missing:
            with contextlib.suppress(RuntimeError):
                self._compare()
        self._missing = []

    def _compare(self) -> None:
        mine = self._spec.to_data()
        for other in list(self._missing):
            if not self._store.check([f"{self._prefix}/{other}"]):
                continue
            self._missing.remove(other)
            theirs = json.loads(self._store.get(f"{self._prefix}/{other}"))
            names = f"rank {other} has", f"rank {self._rank} has"
            if apart := differences(theirs, json.loads(json.dumps(mine)), *names):
                raise UsageError(
                    f"rank {self._rank} opened another stream than rank {other} ({self._line}), so"
                    " rows would come twice or be missing:\n  " + "\n  ".join(apart) + "\ngive"
                    " every rank the same arguments: each gets its own rows of every batch, and"
                    " each row its own draws. If one rank closed its loader and made it again, do"
                    " so on every rank. For a stream that only this rank reads, pass rank=0,"
                    " world_size=1"
                )
