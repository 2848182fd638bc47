"""Records of arguments that few callers set: of the shuffle, of a group, of the connection.

Each checks its fields when it is made, so an error points to the line that made it.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from stoker.client.time_limits import seconds, wait_s
from stoker.protocol.errors import UsageError
from stoker.protocol.request.argument_checks import flag, name_of, one_of, within
from stoker.protocol.request.stream_options import STREAM_OPTIONS

MOST_MEMBERS = 64
MODES = ("mirror", "fork")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shuffle:
    """How a Loader shuffles: `shuffle=Shuffle(...)` in place of `shuffle=True`.

    Attributes:
        seed: seed of the order, so that the Loader's `seed` is that of the draws alone; None: the
            Loader's.
        block_size: samples in a block of neighbors: blocks are shuffled, and the samples inside
            each, for slow storage; None: all samples are shuffled together.
        samples: whether samples are shuffled. False: they come in the order of their ids,
            and the seed draws which of them come once more by their `weights`, the turns of the
            datasets of a `mix`, and substitutes.
    """

    seed: int | None = None
    block_size: int | None = None
    samples: bool = True

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            UsageError: one has another type, or is out of bounds.
        """
        object.__setattr__(self, "samples", flag("Shuffle.samples", self.samples))
        for name in ("seed", "block_size"):
            kind = STREAM_OPTIONS[f"Shuffle.{name}"].kind
            checked = kind.check(f"Shuffle.{name}", getattr(self, name))
            object.__setattr__(self, name, checked)


def shuffle_options(shuffle: object) -> dict[str, object]:
    """Return the options of a stream that a Loader's `shuffle` stands for."""
    if not isinstance(shuffle, Shuffle):
        return {"shuffle": shuffle}
    return {
        "shuffle": shuffle.samples,
        "Shuffle.seed": shuffle.seed,
        "Shuffle.block_size": shuffle.block_size,
    }


def loader_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a Loader for options of a stream."""
    of_shuffle = {
        name.removeprefix("Shuffle."): value
        for name, value in options.items()
        if name.startswith("Shuffle.") and value is not None
    }
    found = {name: value for name, value in options.items() if not name.startswith("Shuffle.")}
    if of_shuffle:
        found["shuffle"] = Shuffle(samples=found.get("shuffle", True), **of_shuffle)
    return found


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of loaders that share work: `group=Group(...)` in place of `group="name"`.

    Attributes:
        name: the name that all its loaders give.
        size: number of its loaders, if the first batch is to wait for them, up to a minute.
        mode: what they share: "mirror", whole batches, each computed once; "fork", decoded samples,
            and each has a seed and a pipeline of its own.
    """

    name: str
    size: int | None = None
    mode: str = "mirror"

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            UsageError: the name is empty or not text, or another field is out of bounds.
        """
        if not name_of("group", self.name):
            raise UsageError(
                "group='': expected a name that the members of the group share, or None for a"
                " loader of its own"
            )
        if self.size is not None:
            size = within("Group.size", self.size, 1, MOST_MEMBERS, " or None")
            object.__setattr__(self, "size", size)
        one_of("Group.mode", self.mode, MODES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """How a Loader reaches its daemons: `connection=Connection(...)`.

    Attributes:
        connect_timeout_s: time limit for the daemon to answer (for a private one: to start).
        timeout_s: time limit for the daemon to open the stream, and for each batch.
        reconnect_s: how long to wait for a daemon that is lost to come back (a private one is
            started again); the stream then goes on where it was, with the same bytes. None raises
            `DaemonLostError` at once.
        key: file of this client's secret key, for `tcp://`; None: STOKER_CLIENT_KEY (environment).
        daemon_key: the daemon's public key, or its file; None: STOKER_CLIENT_DAEMON_KEY.
    """

    connect_timeout_s: float = 10.0
    timeout_s: float = 600.0
    reconnect_s: float | None = None
    key: str | os.PathLike[str] | None = None
    daemon_key: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Check the times, and convert them to floats.

        Raises:
            UsageError: one is not a positive time.
        """
        for name in ("connect_timeout_s", "timeout_s"):
            object.__setattr__(self, name, wait_s(f"Connection.{name}", getattr(self, name)))
        wait = seconds("Connection.reconnect_s", self.reconnect_s)
        object.__setattr__(self, "reconnect_s", wait)
