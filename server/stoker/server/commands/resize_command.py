"""`stoker resize`: another number of workers while the daemon runs."""

from typing import Annotated

import typer

from stoker.protocol.spec import MAX_WORKERS
from stoker.server.commands.daemon_flags import Timeout, Where, local_address_of


def resize(
    where: Where = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=MAX_WORKERS, help="From 1 to the number with which the daemon was started."
        ),
    ] = ...,  # type: ignore[assignment]  # how typer says that it is required
    timeout: Timeout = 10.0,
) -> None:
    """Change the number of workers of a running daemon. No batch changes.

    Run it on the daemon's host, as the daemon's user or as root. A worker that is not wanted ends
    its chunks first. The number lasts until the daemon ends.

    Examples: `stoker resize --workers 2`, `stoker resize stoker.toml --workers 8`.
    """
    from stoker.client.daemon_status import ask_to_resize  # noqa: PLC0415 - needs zmq

    address = local_address_of(where, "workers are resized")
    told = ask_to_resize(address, workers, timeout)
    up = int(told.counters["workers_up"])
    typer.echo(f"workers: {int(told.counters['workers_wanted'])} are wanted, {up} of them are up")
