"""The output of `stoker top`: a screen that lives on a terminal, lines elsewhere."""

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from stoker.protocol.messages import Status, WorkerStatus
from stoker.server.commands.readable_units import number_of, size_text
from stoker.server.commands.status_rates import (
    TimedStatus,
    counter_rate,
    doing,
    session_rates,
    workers_by_stage,
)
from stoker.server.commands.status_tables import (
    more_workers,
    place_of,
    slots_by_state,
    worker_facts,
)
from stoker.server.settings.logs import key_values

ROWS, BATCHES = "rows_total", "batches_total"


def screen(address: str, before: TimedStatus, now: TimedStatus) -> Group:
    """Return what a terminal shows: a few lines, the sessions, the workers."""
    told = now.status
    stages = ", ".join(f"{count} {stage}" for stage, count in workers_by_stage(told)) or "none"
    slots = ", ".join(f"{count} {state}" for state, count in slots_by_state(told)) or "none"
    used, limit = (told.counters.get(f"memory_{of}_bytes", 0) for of in ("used", "limit"))
    rows, batches = (counter_rate(before, now, name) for name in (ROWS, BATCHES))
    lines = (
        ("daemon", f"{address}, process {told.pid}, {told.unready or 'ready'}"),
        ("workers", f"{stages}; {_cores(told):.1f} cores"),
        ("rates", f"{rows:,.0f} rows/s, {batches:,.1f} batches/s"),
        ("slots", f"{slots}; {size_text(used)} of {size_text(limit)}"),
    )
    shown = [Text(f"{name:<10}", "bold") + Text(text) for name, text in lines]
    return Group(*shown, _sessions(before, now), _workers(told), Text("q ends", "dim"))


def print_moment(address: str, before: TimedStatus, now: TimedStatus) -> None:
    """Print one line a fact: its name, then `key=value`."""
    told = now.status
    typer.echo(
        f"daemon {key_values({'address': address, 'pid': told.pid, 'unready': told.unready})}"
    )
    rates = {
        f"{name}_per_s": counter_rate(before, now, f"{name}_total") for name in ("rows", "batches")
    }
    typer.echo(f"rates {key_values(rates)}")
    typer.echo(f"slots {key_values(dict(slots_by_state(told)))}".rstrip())
    for worker in told.workers:
        typer.echo(f"worker {key_values(worker_facts(worker))}")
    for one in told.sessions:
        rate = session_rates(before, now, one)
        facts = {
            "name": one.name, "host": one.host, "pid": one.pid, "user": one.user,
            "dataset": one.dataset, "pipeline": one.pipeline, "state": one.state,
            "epoch": one.epoch, "step": one.step, "steps": one.steps,
            "batches_per_s": rate.batches_per_s, "rows_per_s": rate.rows_per_s,
            "waited": rate.waited, "untaken": one.untaken, "slots": one.slots,
        }  # fmt: skip
        typer.echo(f"session {key_values(facts)}")


def _sessions(before: TimedStatus, now: TimedStatus) -> Table | Text:
    told = now.status
    if not told.sessions:
        return Text("no sessions")
    table = _table("client", "user@host:pid", "dataset", "pipeline", "epoch: step")
    for name in ("batches/s", "rows/s", "ready", "waiting", "slots"):
        table.add_column(name, justify="right")
    for one in told.sessions:
        rate = session_rates(before, now, one)
        words = (
            one.name or "-", f"{one.user or '-'}@{one.host or '-'}:{one.pid}", one.dataset or "-",
            one.pipeline or "-", place_of(one), f"{rate.batches_per_s:,.1f}",
            f"{rate.rows_per_s:,.0f}", str(one.untaken), f"{rate.waited:.0%}", str(one.slots),
        )  # fmt: skip
        table.add_row(*map(Text, words))
    others = int(told.counters.get("sessions", 0)) - 1 - len(told.sessions)
    if others > 0:
        table.caption = f"and {number_of(others, 'session')} more"
    return table


def _workers(told: Status) -> Table | Text:
    if not told.workers:
        return Text("no workers, or a daemon that does not show them")
    table = _table("worker", "pid", "does", "for", "cores", "client", "dataset", "pipeline", "at")
    table.caption = more_workers(told)
    for one in told.workers:
        words = (
            str(one.worker), str(one.pid or "-"), doing(one), _seconds(one.state_s),
            f"{one.cpu:.2f}", one.client or "-", one.dataset or "-", one.pipeline or "-",
            _work(one),
        )  # fmt: skip
        table.add_row(*map(Text, words))
    return table


def _table(*columns: str) -> Table:
    table = Table()
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _work(one: WorkerStatus) -> str:
    if not one.stream:
        return "-"
    sample = "" if one.sample is None else f", sample {one.sample}"
    return f"{one.epoch}: {one.step}{sample}"


def _seconds(seconds: float) -> str:
    """Return a time as finely as the daemon knows it: a quarter of a second."""
    return f"{seconds:.1f} s" if seconds >= 0.25 else "-"


def _cores(told: Status) -> float:
    return sum(worker.cpu for worker in told.workers)
