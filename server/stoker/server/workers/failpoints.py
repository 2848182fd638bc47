"""Named fail points: places where a test makes a process die, stop, fail or wait on purpose.

A plan is text, `POINT:ACTION:HIT[:PROCESS]` separated by commas, for example
`worker.row:kill:5:1` (the worker number 1 kills itself when it begins its fifth row). HIT counts
the visits of the point in one process, from 1; without PROCESS every process obeys. The plan comes
from the configuration (`[testing] fail_points`), is empty in production, and then costs one
dictionary look-up. Points: see `POINTS`; a test visits each.
"""

import ctypes
import os
import signal
from dataclasses import dataclass

from stoker.protocol.errors import ConfigError

POINTS = {
    "worker.start": "a worker is up and has not said so",
    "worker.chunk": "a worker begins a chunk",
    "worker.row": "a worker begins a row",
    "worker.row_done": "a worker has written a row",
    "worker.chunk_done": "a worker has written a chunk and has not said so",
    "builder.start": "a builder is up",
    "builder.done": "a builder has compiled and has not said so",
    "replayer.start": "a replayer is up",
    "replayer.done": "a replayer has computed and has not said so",
    "decoder_compiler.start": "a compiler of the decoder of JPEGs is up",
    "decoder_compiler.done": "a compiler of the decoder of JPEGs has compiled and has not said so",
    "daemon.death": "the daemon reads that a child is dead",
    "daemon.message": "the daemon has handled a message of a client",
    "daemon.descriptor": "the daemon has handled a descriptor that is readable",
    "daemon.instruction": "the daemon has carried out an instruction of its core",
    "daemon.tick": "the daemon has done one of the things that are due from time to time",
    "daemon.event": "the core has handled an event",
}
ACTIONS = ("kill", "stop", "segv", "exit", "error", "withhold")
"""`withhold` works at `daemon.death` alone: the report waits until the next one comes."""


@dataclass(frozen=True)
class _Rule:
    action: str
    hit: int
    process: int | None


class FailPoints:
    """The plan of one process and its counts of visits."""

    def __init__(self, plan: str, process: int = -1) -> None:
        """Parse a plan.

        Raises:
            ConfigError: the plan names an unknown point or action, or is malformed.
        """
        self._rules: dict[str, list[_Rule]] = {}
        self._visits: dict[str, int] = {}
        self._process = process
        for part in filter(None, (piece.strip() for piece in plan.split(","))):
            point, rule = _parse(part)
            if rule.process in (None, process):
                self._rules.setdefault(point, []).append(rule)

    def names(self, *points: str) -> bool:
        """Return whether the plan has a rule for one of these points in this process."""
        return any(point in self._rules for point in points)

    def visit(self, point: str) -> bool:
        """Pass a point; does what the plan says, which may not return.

        Returns:
            Whether what the process has learned at the point is to be withheld.
        """
        rules = self._rules.get(point)
        if rules is None:
            return False
        self._visits[point] = self._visits.get(point, 0) + 1
        for rule in rules:
            if rule.hit == self._visits[point]:
                _do(rule.action, point)
        return any(rule.action == "withhold" and rule.hit == self._visits[point] for rule in rules)


def _parse(part: str) -> tuple[str, _Rule]:
    pieces = part.split(":")
    if len(pieces) not in (3, 4) or not all(piece.isdigit() for piece in pieces[2:]):
        raise ConfigError(f"fail point {part!r}: expected POINT:ACTION:HIT[:PROCESS]")
    point, action, *numbers = pieces
    if point not in POINTS:
        raise ConfigError(f"fail point {part!r}: no point {point!r}; there are {', '.join(POINTS)}")
    if action not in ACTIONS:
        raise ConfigError(f"fail point {part!r}: no action {action!r}; use {', '.join(ACTIONS)}")
    return point, _Rule(action, int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else None)


def _do(action: str, point: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "segv":
        ctypes.string_at(0)
    elif action == "exit":
        os._exit(3)
    elif action == "error":
        raise RuntimeError(f"fail point {point}")
