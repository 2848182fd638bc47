"""The template process as the daemon sees it: started, checked, asked to fork, replaced.

Runs on the daemon's loop; only `start` waits. A template reports that it is ready, or why it cannot
start. One that was ready and ends is replaced at once; one that did not become ready is replaced
after a pause that doubles. One that is not ready in time is killed, and so is one that does not
answer, at the supervisor's request. A killed process is reaped later, so that the loop never waits
for it. A child of a killed template becomes a child of the daemon and is killed, too. Times
are seconds.
"""

import contextlib
import socket
import subprocess
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from stoker.protocol.descriptors import await_readable
from stoker.protocol.errors import ProtocolError, ResourceError, SetupError
from stoker.server.daemon.launch import Launched, launch
from stoker.server.settings import logs
from stoker.server.workers import channel
from stoker.server.workers.death import describe, end_orphans, stat_of
from stoker.server.workers.template import (
    ChildEnded,
    Forked,
    ForkRefused,
    TemplateFailed,
    TemplateReady,
)

Answered = Forked | ForkRefused | ChildEnded
BACKOFF_S: Final = 0.25
MAX_BACKOFF_S: Final = 30.0
_TO_DIE_S: Final = 1.0
_HALTED: Final = {"T": "is stopped", "t": "is stopped by a debugger", "Z": "is dead"}
"""Process states in which it cannot answer, by the letter in /proc/PID/stat."""


class TemplateProcess:
    """The template process.

    Attributes:
        control: the daemon's end of its socket; None while no template runs.
        answered_at: when it became ready, or last answered.
        ready: whether it can fork.
        why: how the last one ended.
    """

    def __init__(
        self,
        cache_root: str,
        python_path: Sequence[str],
        start_deadline_s: float,
        now: Callable[[], float],
        launched: Launched | None,
    ) -> None:
        self._cache_root = cache_root
        self._python_path = list(python_path)
        self._start_deadline_s = start_deadline_s
        self._now = now
        self._running = launched
        self._launched_at = now()
        self._failures = 0
        self._again_at = 0.0
        self._patience_s = 0.0
        self._dying: list[subprocess.Popen[bytes]] = []
        self._orphans = False
        self.answered_at = 0.0
        self.ready = False
        self.why = ""
        self._fault: type[ResourceError] = ResourceError

    @property
    def control(self) -> socket.socket | None:
        """The daemon's end of its socket."""
        return None if self._running is None else self._running.control

    def start(self) -> None:
        """Start the template if it does not run, and wait until it is ready.

        Raises:
            ResourceError: it cannot start; the message has the template's error.
            SetupError: the same, and that will not pass.
        """
        if self._running is None:
            self._launch()
        self._patience_s = _TO_DIE_S
        while not self.ready:
            assert self.control is not None
            left_s = self._launched_at + self._start_deadline_s - self._now()
            if not await_readable(self.control, left_s):
                self.lost(f"was not ready after {self._start_deadline_s:g} s")
            elif self.read() is None and self._running is not None and not self.ready:
                self.lost("ended before it was ready")
            if self._running is None:
                raise self._fault(f"{self.why}; no worker can be started without it")
        self._patience_s = 0.0

    def send(self, record: msgspec.Struct, descriptor: int) -> bool:
        """Send a request to the template; False if that fails."""
        if self.control is None:
            return False
        try:
            channel.send(self.control, record, descriptor)
        except OSError:  # the end of its socket is handled for all its children
            return False
        return True

    def read(self) -> tuple[Answered, int | None] | None:
        """Return the next answer; None if nothing can be read yet, or if the template has ended.

        Raises:
            EOFError: it has ended.
        """
        assert self.control is not None
        while True:
            try:
                received = channel.receive(self.control, Answered | TemplateReady | TemplateFailed)
            except BlockingIOError:
                return None
            except (OSError, ProtocolError, ResourceError):
                received = None
            if received is None:
                if self.ready:
                    raise EOFError
                self.lost("ended before it was ready")
                return None
            record, descriptor = received
            self.answered_at = self._now()
            if isinstance(record, TemplateReady):
                self.ready, self._failures = True, 0
            elif isinstance(record, TemplateFailed):
                self._fault = SetupError if record.code == SetupError.code else ResourceError
                self.lost(f"cannot start: {record.message}")
                return None
            else:
                return record, descriptor

    def lost(self, why: str) -> None:
        """Kill and replace the template, at once or after a pause."""
        running, self._running = self._running, None
        assert running is not None
        running.process.kill()
        running.control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = running.process.wait(self._patience_s)
            how = f"exit code {status}" if status >= 0 else describe(-status)[0]
            why = why if status == -9 else f"{why} ({how})"
        if running.process.returncode is None:
            self._dying.append(running.process)
        self._orphans = True
        self.why = f"the template process {why}"
        logs.log("error", "template_down", reason=self.why)
        if self.ready:
            self._relaunch()
        else:
            self._wait()

    def tick(self) -> bool:
        """Reap what was killed; start a template whose pause is over; end one that hangs.

        Returns:
            Whether the template was ended; its children are orphans.
        """
        self._dying = [process for process in self._dying if process.poll() is None]
        if self._orphans and not self._dying:
            self._orphans = not end_orphans(self._own(), 0)
        if self._running is None and self._now() >= self._again_at:
            self._relaunch()
            return False
        late = self._now() - self._launched_at > self._start_deadline_s
        if self._running is None or self.ready or not late:
            return False
        self.lost(f"was not ready after {self._start_deadline_s:g} s")
        return True

    def unready(self) -> str:
        """Return why it cannot fork now; empty: it can."""
        if self._running is None:
            return self.why or "the template process does not run"
        if not self.ready:
            return f"the template process is being replaced: {self.why}"
        with contextlib.suppress(OSError):
            if (state := stat_of(self._running.process.pid)[0].decode()) in _HALTED:
                return f"the template process {_HALTED[state]}"
        return ""

    def kill(self) -> None:
        """Kill and reap the template; its socket can still be read."""
        if self._running is not None:
            self._running.process.kill()
            self._running.process.wait()
        for process in self._dying:
            process.wait()
        self._dying.clear()
        end_orphans((), _TO_DIE_S)

    def close(self) -> None:
        """Kill and reap the template, close its socket."""
        self.kill()
        if self._running is not None:
            self._running.close()
            self._running = None

    def _own(self) -> set[int]:
        return set() if self._running is None else {self._running.process.pid}

    def _wait(self) -> None:
        """Note when to launch the next one."""
        self._again_at = self._now() + min(BACKOFF_S * 2**self._failures, MAX_BACKOFF_S)
        self._failures += 1

    def _relaunch(self) -> None:
        """Launch a template, later if the system starts no process now."""
        try:
            self._launch()
        except ResourceError as error:
            self.why = error.message
            logs.log("error", "template_down", reason=self.why)
            self._wait()

    def _launch(self) -> None:
        self.ready = False
        self._launched_at = self._now()
        self._running = launch(self._cache_root, self._python_path)
