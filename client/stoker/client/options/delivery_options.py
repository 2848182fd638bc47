"""How a Loader's batches come to it: its arguments about delivery and connection, checked.

Everything that can be refused without the daemon is refused here, with messages that name the
arguments of `Loader`.
"""

from typing import Any

from stoker.client.options.argument_records import Connection, Group
from stoker.protocol.codec import MAX_MESSAGE_BYTES
from stoker.protocol.errors import UsageError
from stoker.protocol.request.argument_checks import flag, within
from stoker.protocol.request.option_refusals import Asked, check_combination
from stoker.protocol.request.stream_request import (
    MAX_PREFETCH,
    DeliveryRequest,
    GroupRequest,
    StreamRequest,
)

OPEN_REQUEST = 1
"""Request number of OPEN; later requests count up from it."""
SLAB_BYTES = 2**29
"""Memory of a stream, within which the daemon chooses how many batches to prefetch."""
MOST_CHOSEN = 16
"""The most that it chooses: more hides no more slow rows."""
OTHER_BYTES = 2**16
"""Room in the message for all other arguments, of which `freeze` is the longest."""


def delivery_of(
    prefetch: object, leases: int, *, verify: object, group: object, progress: bool
) -> DeliveryRequest:
    """Return how the batches come.

    Args:
        prefetch: the Loader's.
        leases: number of slots that the caller may hold at once without copies.
        verify: the Loader's.
        group: name of a group, or a `Group`, or None.
        progress: whether the progress of a build is shown.

    Raises:
        UsageError: an argument is wrong; the message names it.
    """
    asked = None
    if group is not None:
        chosen: Any = group if isinstance(group, Group) else Group(group)  # type: ignore[arg-type]
        asked = GroupRequest(name=chosen.name, size=chosen.size or 0, mode=chosen.mode)
    return DeliveryRequest(
        prefetch=MOST_CHOSEN
        if prefetch is None
        else within("prefetch", prefetch, 1, MAX_PREFETCH, " or None"),
        leases=leases,
        prefetch_bytes=SLAB_BYTES if prefetch is None else 0,
        verify=flag("verify", verify),
        group=asked,
        progress=progress,
    )


def connection_of(given: object) -> Connection:
    """Return how the daemons are reached.

    Raises:
        UsageError: it is neither a `Connection` nor None.
    """
    if given is None or isinstance(given, Connection):
        return given or Connection()
    raise UsageError(f"connection={given!r}: expected stoker.client.Connection, or None")


def check_request(
    stream: StreamRequest, delivery: DeliveryRequest, world_size: int, last: str
) -> None:
    """Check a request as a whole.

    Args:
        stream: the stream.
        delivery: how its batches come.
        world_size: number of ranks.
        last: what becomes of an incomplete last batch.

    Raises:
        UsageError: options exclude each other, or the request is too large for a message.
    """
    check_combination(Asked(stream, delivery, world_size, last))
    _check_size(stream)


def _check_size(stream: StreamRequest) -> None:
    sizes = dict.fromkeys(("pipeline", "exclude", "subset", "weights"), 0)
    for source in stream.sources:
        sizes["pipeline"] += len(source.graph)
        for name in ("exclude", "subset", "weights"):
            sizes[name] += len(getattr(source.selection, name))
    if sum(sizes.values()) > MAX_MESSAGE_BYTES - OTHER_BYTES:
        listed = ", ".join(f"{name}={size}" for name, size in sizes.items() if size)
        raise UsageError(
            f"one message has room for {MAX_MESSAGE_BYTES} bytes, and these arguments take more "
            f"together: {listed}; name the pipeline at the daemon, or store the weights as a field "
            "of the dataset"
        )
