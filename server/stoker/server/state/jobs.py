"""Checks that the ranks of a job, whose OPEN has the same `job`, open the same stream.

Batches are cut by rank, so ranks whose streams differ get rows twice, or miss some, without any
other sign. A job is known as long as one of its sessions is open or gets its memory. All of them
have one spec, because a session with another one is refused, so a comparison has constant cost and
there are never more jobs than sessions.
"""

from dataclasses import dataclass, field

from stoker.protocol.errors import UsageError
from stoker.protocol.messages import Open
from stoker.protocol.spec import StreamSpec, differences


@dataclass(slots=True)
class OpenJob:
    """A job that has open sessions.

    Attributes:
        spec: the stream of all of them.
        ranks: the rank of each, by token.
    """

    spec: StreamSpec
    ranks: dict[bytes, int] = field(default_factory=dict)


class Jobs:
    """The jobs of open sessions, by key."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, OpenJob] = {}
        self._keys: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        """Return the number of jobs that have a session."""
        return len(self._by_key)

    def check(self, request: Open, spec: StreamSpec) -> None:
        """Compare a session that opens a stream with those of its job.

        Raises:
            UsageError: they have another stream; the message lists the fields.
        """
        job = self._by_key.get(request.job)
        if job is None or job.spec == spec:
            return
        rank, others = request.rank, job.ranks.values()
        other = next((one for one in others if one != rank), rank)
        names = f"rank {other} has", f"rank {rank} has"
        if other == rank:
            names = "the first has", "this one has"
        apart = differences(job.spec.to_data(), spec.to_data(), *names)
        raise UsageError(
            f"{_said(rank, other)}, so rows would come twice or be missing:\n  "
            + "\n  ".join(apart)
            + "\ngive every rank the same arguments: each gets its own rows of every batch, and"
            " each row its own draws. If one rank closed its loader and made it again, do so on"
            " every rank. For a stream that only this rank reads, pass rank=0, world_size=1",
            rank=rank,
            other=other,
        )

    def join(self, token: bytes, request: Open, spec: StreamSpec) -> None:
        """Note a session whose stream has been checked and will be open."""
        if request.job:
            self._by_key.setdefault(request.job, OpenJob(spec)).ranks[token] = request.rank
            self._keys[token] = request.job

    def leave(self, token: bytes) -> None:
        """Forget a session that ends or is refused; does nothing for others."""
        key = self._keys.pop(token, None)
        if key is None:
            return
        job = self._by_key[key]
        del job.ranks[token]
        if not job.ranks:
            del self._by_key[key]


def _said(rank: int, other: int) -> str:
    if rank == other:
        return (
            f"two processes are rank {rank} of one job and open different streams (one that has"
            " ended counts until the daemon notices it)"
        )
    return f"rank {rank} opens another stream than rank {other} of the same job"
