"""A supervisor with real processes, driven by a small loop."""

import select
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import warm

from stoker.server.daemon.launch import Launched
from stoker.server.daemon.supervisor import Supervisor

ROWS = 10
DEADLINE_S = 120.0


class Rig:
    """A supervisor, the events it reported, and a loop that waits for one of them.

    It has no ticks: what it reports, a descriptor has announced. `woken` counts these.
    """

    def __init__(
        self,
        cache: Path,
        fail_points: str = "",
        shares: int = 1,
        debug_memory: bool = False,
        template: Launched | None = None,
        python_path: Sequence[str] = (),
    ) -> None:
        self.events: list[object] = []
        self.woken = 0
        self.supervisor = Supervisor(
            cache_root=str(cache),
            python_path=python_path,
            fail_points=fail_points,
            shares=shares,
            on_event=self.events.append,
            now=time.monotonic,
            debug_memory=debug_memory,
            template=template,
        )
        self.supervisor.start()

    def wait(self, kind: type, condition: Callable[[object], bool] = lambda event: True):
        """Run the loop until such an event came; return it and forget it."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            for event in self.events:
                if isinstance(event, kind) and condition(event):
                    self.events.remove(event)
                    return event
            left = deadline - time.monotonic()
            assert left > 0, f"no {kind.__name__} within {DEADLINE_S} s; got {self.events}"
            self._turn(min(left, 0.5))

    def hear_of_forks(self) -> None:
        """Run the loop until the template has reported all forks; a worker may be up before."""
        deadline = time.monotonic() + DEADLINE_S
        while any(child.pidfd is None for child in self.supervisor._children.values()):
            assert time.monotonic() < deadline, "the template does not report its forks"
            self._turn(0.5)

    def _turn(self, timeout_s: float) -> None:
        callbacks = self.supervisor.descriptors()
        for fd in select.select(list(callbacks), [], [], timeout_s)[0]:
            callback = self.supervisor.descriptors().get(fd)
            if callback is not None:
                self.woken += 1
                callback()


@pytest.fixture
def rig(kernel_cache: Path) -> Iterator[Callable[..., Rig]]:
    """Make rigs; their first template is forked from a warm process, unless `executed`."""
    made: list[Rig] = []

    def make(*args: object, executed: bool = False, **fields: object) -> Rig:
        if not executed and "template" not in fields:
            fields["template"] = warm.launch(str(kernel_cache), fields.get("python_path", ()))
        made.append(Rig(kernel_cache, *args, **fields))
        return made[-1]

    yield make
    for one in made:
        one.supervisor.close()
