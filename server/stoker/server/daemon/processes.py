"""The supervisor's interface to the daemon; tests pass their own implementation."""

from collections.abc import Callable, Mapping
from typing import Protocol

from stoker.server.state.worker_status import Seen
from stoker.server.work.work_records import BuildRequest, ReplayRequest, ToWorker


class Processes(Protocol):
    """Requests of the daemon to the processes that it owns; `Supervisor` implements them."""

    def start(self) -> None:
        """Start the template process."""

    def tick(self) -> None:
        """Replace processes that do not answer; called a few times per second."""

    def unready(self) -> str:
        """Return why no child can be started now; empty: one can."""

    def descriptors(self) -> dict[int, Callable[[], None]]:
        """Return the open descriptors and what to call when one is readable."""

    def abandon(self, descriptor: int) -> bool:
        """Kill the process behind a descriptor; return whether it is one of these."""

    def seen(self) -> Mapping[int, Seen]:
        """Return what each worker does now, by number; called a few times per second."""

    def start_worker(self, worker: int) -> None:
        """Start a worker."""

    def kill_worker(self, worker: int, reason: str) -> None:
        """Kill a worker."""

    def recall(self, worker: int, claim: int) -> None:
        """Take work back from a worker that has not started it."""

    def start_build(self, request: BuildRequest) -> None:
        """Start a one-off builder."""

    def end_build(self, build: int, reason: str) -> None:
        """End a builder."""

    def start_replay(self, request: ReplayRequest) -> None:
        """Start a one-off replayer."""

    def compile_decoder(self, form: int) -> None:
        """Start a one-off compiler of Stoker's own decoder of JPEGs."""

    def end_decoder(self, reason: str) -> None:
        """End it; it fails at once."""

    def take_replay(self, replay: int) -> int | None:
        """Return the descriptor of a replay's memory; the caller owns it."""

    def drop_replay(self, replay: int) -> None:
        """End a replay and free its memory."""

    def send(self, worker: int, record: ToWorker, descriptor: int | None = None) -> None:
        """Send a worker a record."""

    def close(self) -> None:
        """Kill and reap all."""
