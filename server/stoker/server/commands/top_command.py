"""`stoker top`: what a daemon does at this moment, again and again on a terminal, once into a pipe.

Rates are those between two answers of the daemon. It is a client of the daemon, like
`stoker status`.
"""

import contextlib
import os
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.live import Live

from stoker.protocol.descriptors import await_readable
from stoker.protocol.messages import Status
from stoker.server.commands.daemon_flags import LONGEST_S, DaemonKey, Key, Where, address_of
from stoker.server.commands.exit_statuses import INTERRUPTED
from stoker.server.commands.status_rates import TimedStatus
from stoker.server.commands.top_tables import print_moment, screen

NAME: Final = "stoker top"
"""What the log of the daemon calls the session."""
_QUIT: Final = b"qQ"
_FIRST_S: Final = 0.2
"""The first screen comes so soon, with rates over this time."""


def top(
    where: Where = None,
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600.0, help="Seconds between two looks.")
    ] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Look once, with the rates of one interval.")
    ] = False,
    key: Key = None,
    daemon_key: DaemonKey = None,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1, max=LONGEST_S, help="Seconds to wait for each of the daemon's answers."
        ),
    ] = 10.0,
) -> None:
    """Watch a running daemon: sessions, what each worker does now, slots and rates.

    On a terminal the screen is drawn anew after each interval, until q or Ctrl-C. Into a pipe it
    prints one look as lines of key=value.

    Examples: `stoker top`, `stoker top stoker.toml --interval 5`,
    `stoker top ipc:///run/stoker/stoker.sock --once | grep ^worker`.
    """
    from stoker.client.daemon_status import asking  # noqa: PLC0415 - needs zmq

    address, console = address_of(where), Console()
    try:
        with asking(address, timeout, key, daemon_key, NAME) as ask:
            if console.is_terminal and not once:
                _watch(console, address, ask, interval)
                return
            before = _look(ask)
            time.sleep(interval)
            now = _look(ask)
        if console.is_terminal:
            console.print(screen(address, before, now))
        else:
            print_moment(address, before, now)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _look(ask: Callable[[], Status]) -> TimedStatus:
    return TimedStatus(ask(), time.monotonic())


def _watch(console: Console, address: str, ask: Callable[[], Status], interval_s: float) -> None:
    """Draw the screen after each interval, until a key ends it."""
    moments = [_look(ask)]
    pause_s = min(_FIRST_S, interval_s)
    with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while not _ends(keys, pause_s):
            moments = [moments[-1], _look(ask)]
            live.update(screen(address, *moments), refresh=True)
            pause_s = interval_s


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """Give the descriptor of a terminal whose keys come one by one; None if there is none."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _ends(keys: int | None, pause_s: float) -> bool:
    """Wait; return whether a key that ends the command was pressed, or its terminal is gone."""
    end = time.monotonic() + pause_s
    while (left_s := end - time.monotonic()) > 0:
        if keys is None:
            time.sleep(left_s)
        elif await_readable(keys, left_s):
            pressed = os.read(keys, 64)
            if not pressed or any(key in _QUIT for key in pressed):
                return True
    return False
