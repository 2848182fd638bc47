"""The output of `stoker status` for people: tables on a terminal, lines elsewhere."""

from collections.abc import Mapping

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stoker.protocol.messages import SessionStatus, Status, WorkerStatus
from stoker.server.commands.readable_units import number_of, size_text
from stoker.server.commands.status_rates import doing
from stoker.server.settings.logs import key_values

SLOTS = "_slots"
"""The end of the counters that count slots by state."""


def print_lines(address: str, told: Status) -> None:
    """Print one line a fact: its name, then `key=value`."""
    facts: list[tuple[str, Mapping[str, object]]] = [
        ("daemon", {"address": address, "pid": told.pid, "unready": told.unready}),
        ("workers", {"configured": _count(told, "workers"), "up": _count(told, "workers_up")}),
        ("jpegs", {"own_decoder": _count(told, "own_decoder")}),
        (
            "memory",
            {
                "used_bytes": _count(told, "memory_used_bytes"),
                "limit_bytes": _count(told, "memory_limit_bytes"),
            },
        ),
        ("slots", dict(slots_by_state(told))),
        *(("dataset", {"name": name}) for name in told.datasets),
        *(("pipeline", {"name": name}) for name in told.pipelines),
        *(("worker", worker_facts(worker)) for worker in told.workers),
        *(("session", msgspec.structs.asdict(session)) for session in told.sessions),
    ]
    for name, values in facts:
        typer.echo(f"{name} {key_values(values)}".rstrip())


def print_tables(console: Console, address: str, told: Status) -> None:
    """Print a few lines about the daemon, and tables of its workers and sessions."""
    used, limit = _count(told, "memory_used_bytes"), _count(told, "memory_limit_bytes")
    slots = ", ".join(f"{count} {state}" for state, count in slots_by_state(told)) or "none"
    lines = (
        ("daemon", f"{address}, process {told.pid}, " + (told.unready or "ready")),
        ("workers", f"{_count(told, 'workers_up')} of {_count(told, 'workers')} are up"),
        ("jpegs", "Stoker's own decoder" if _count(told, "own_decoder") else "libjpeg-turbo"),
        ("memory", f"{size_text(used)} of {size_text(limit)}"),
        ("slots", slots),
        ("datasets", ", ".join(told.datasets) or "none"),
        ("pipelines", ", ".join(told.pipelines) or "none"),
    )
    for name, text in lines:
        console.print(Text(f"{name:<10}", "bold") + Text(text))
    if told.workers:
        console.print(_workers(told))
    others = int(_count(told, "sessions")) - 1 - len(told.sessions)
    if told.sessions:
        console.print(_table(told.sessions))
    else:
        console.print(Text("no sessions"))
    if others > 0:
        console.print(Text(f"and {number_of(others, 'session')} more"))


def slots_by_state(told: Status) -> list[tuple[str, int]]:
    """Return the number of slots in each state that has some."""
    named = ((name, int(count)) for name, count in told.counters.items() if name.endswith(SLOTS))
    return [(name.removesuffix(SLOTS), count) for name, count in named if count]


def worker_facts(worker: WorkerStatus) -> dict[str, object]:
    """Return what a worker does, as the lines of `status` and `top` say it."""
    return {
        "number": worker.worker, "pid": worker.pid, "state": worker.state, "op": worker.op,
        "state_s": worker.state_s, "cores": worker.cpu, "client": worker.client,
        "dataset": worker.dataset, "pipeline": worker.pipeline, "epoch": worker.epoch,
        "step": worker.step, "row": _or_dash(worker.row), "sample": _or_dash(worker.sample),
    }  # fmt: skip


def more_workers(told: Status) -> str | None:
    """Return how many workers the daemon has besides those that it lists; None if it lists all."""
    unlisted = int(_count(told, "workers")) - len(told.workers)
    return f"and {number_of(unlisted, 'worker')} more" if unlisted > 0 else None


def _or_dash(number: int | None) -> object:
    return "-" if number is None else number


def _count(told: Status, name: str) -> float:
    """Return a counter; 0 from a daemon that does not know it."""
    return told.counters.get(name, 0)


def _workers(told: Status) -> Table:
    table = Table(caption=more_workers(told))
    for name in ("worker", "pid", "does", "client", "dataset", "pipeline"):
        table.add_column(name, overflow="fold")
    for one in told.workers:
        words = (
            str(one.worker), str(one.pid or "-"), doing(one), one.client or "-",
            one.dataset or "-", one.pipeline or "-",
        )  # fmt: skip
        table.add_row(*map(Text, words))
    return table


def _table(sessions: list[SessionStatus]) -> Table:
    table = Table()
    for name in ("client", "user@host:pid", "dataset", "pipeline", "state", "epoch: step"):
        table.add_column(name, overflow="fold")
    for name in ("batches", "returned", "untaken", "slots", "waited"):
        table.add_column(name, justify="right")
    for one in sessions:
        words = (
            one.name or "-", f"{one.user or '-'}@{one.host or '-'}:{one.pid}", one.dataset or "-",
            one.pipeline or "-", _state(one), place_of(one), str(one.announced), str(one.returned),
            str(one.untaken), str(one.slots), _waited(one),
        )  # fmt: skip
        table.add_row(*map(Text, words))
    return table


def _state(one: SessionStatus) -> str:
    rank = f", rank {one.rank} of {one.world_size}" if one.world_size > 1 else ""
    group = f", group {one.group}" if one.group else ""
    return f"{one.state}{rank}{group}"


def place_of(one: SessionStatus) -> str:
    """Return the epoch and step of a session, and how many of each there are."""
    if one.state != "open":
        return "-"
    epochs = f"/{one.epochs}" if one.epochs else ""
    return f"{one.epoch}{epochs}: {one.step}/{one.steps}"


def _waited(one: SessionStatus) -> str:
    share = one.waited_s / one.age_s if one.age_s > 0 else 0.0
    return f"{one.waited_s:.1f} s ({share:.0%})"
