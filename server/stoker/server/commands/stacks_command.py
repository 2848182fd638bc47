"""`stoker stacks`: the Python stacks of every process of a daemon, also of one that hangs."""

import json
from typing import Annotated, Final

import typer

from stoker.protocol.errors import StokerError
from stoker.protocol.messages import WorkerStatus
from stoker.server.commands.daemon_flags import LONGEST_S, Where, local_address_of
from stoker.server.commands.exit_statuses import FAILED
from stoker.server.commands.process_stacks import ProcessStack, family, listener, stacks_of
from stoker.server.commands.status_rates import QUIET, doing
from stoker.server.daemon.socket_folder import socket_path

NAME: Final = "stoker stacks"
"""What the log of the daemon calls the session."""


def stacks(
    where: Where = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=LONGEST_S, help="Seconds to wait for all processes.")
    ] = 3.0,
) -> None:
    """Show the Python stacks of all processes of a daemon: itself, its template, its workers.

    Run it on the daemon's host, as the daemon's user or as root. It also works while the daemon or
    a worker hangs. The status is 1 if a process did not answer.

    Examples: `stoker stacks`, `stoker stacks ipc:///run/stoker/stoker.sock --json`.
    """
    address = local_address_of(where, "stacks are read")
    pid = listener(socket_path(address), address)
    workers = _workers(address, timeout)
    found = stacks_of(family(pid), timeout)
    if as_json:
        facts = [
            {"role": _role(one, pid, workers), **one._asdict(), "does": _does(one, workers)}
            for one in found
        ]
        typer.echo(json.dumps({"address": address, "processes": facts}))
    else:
        for one in found:
            typer.echo(_shown(one, pid, workers))
    if any(one.why for one in found):
        raise typer.Exit(FAILED)


def _workers(address: str, timeout_s: float) -> dict[int, WorkerStatus]:
    """Return what the daemon says of its workers, by process; nothing if it does not answer."""
    from stoker.client.daemon_status import asking  # noqa: PLC0415 - needs zmq

    try:
        with asking(address, timeout_s, name=NAME) as ask:
            return {one.pid: one for one in ask().workers}
    except StokerError as error:
        typer.echo(
            f"stoker: the daemon does not say what its workers do: {error.message}", err=True
        )
        return {}


def _role(one: ProcessStack, daemon: int, workers: dict[int, WorkerStatus]) -> str:
    if one.pid == daemon:
        return "daemon"
    if one.pid in workers:
        return f"worker {workers[one.pid].worker}"
    return "template" if one.parent == daemon else "child"


def _does(one: ProcessStack, workers: dict[int, WorkerStatus]) -> str:
    worker = workers.get(one.pid)
    return "" if worker is None else doing(worker)


def _shown(one: ProcessStack, daemon: int, workers: dict[int, WorkerStatus]) -> str:
    worker = workers.get(one.pid)
    head = f"{_role(one, daemon, workers)}, process {one.pid}"
    if worker is not None:
        busy = worker.state not in QUIET and worker.client
        head += f", {doing(worker)} for {worker.state_s:.1f} s" + (
            f", for {worker.client}" if busy else ""
        )
    return f"{head}: {one.why}\n" if one.why else f"{head}\n{one.text}"
