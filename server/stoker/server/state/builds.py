"""Builds of pipelines for datasets: one build for all sessions that wait for it.

The key of a build is the digest of what it reads, so streams that differ only in other things, such
as seed or rank, share it. At most `concurrent_builds` run at a time, the others wait in order. At
most `cached_builds` results are kept; the least recently used one is dropped first. A failed build
is forgotten, because its cause may have been fixed. Datasets may get samples, fields and splits,
and files of users may be edited. So each further build runs too, with the earlier result at hand,
and saves itself the planning and loading if nothing has changed.

A build without progress for `build_deadline_s` fails, so a pipeline that hangs while it is built
delays others by at most that long. Clients without a running build come first, so one with many
builds that hang delays others no longer. A build that no client waits for is ended at once. A build
whose process is killed from outside starts again, with a pause that doubles; it fails once
`start_deadline_s` has passed since the first of these deaths.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from stoker.protocol.errors import ResourceError
from stoker.server.state.core_context import CoreContext, backoff_s
from stoker.server.state.core_instructions import EndBuild, StartBuild
from stoker.server.state.events import BuildProgress
from stoker.server.work.work_records import BuildRequest, BuildResult, StreamToBuild


@dataclass(slots=True)
class Build:
    """A running or waiting build, and the sessions that wait for its result.

    Attributes:
        number: its number.
        key: the digest of `stream`.
        stream: what is built.
        process: the process of the client that asked first.
        waiters: tokens of the sessions that wait for it.
        progress_at: when its process last made progress.
        functions: how many functions it has, of how many; (0, 0) if that is not known.
        ending: whether its process is being ended because it made none.
        deaths: how often its process was killed from outside.
        died_at: when that happened first.
        again_at: when it starts again after a death.
    """

    number: int
    key: str
    stream: StreamToBuild
    process: str
    waiters: list[bytes] = field(default_factory=list)
    progress_at: float = 0.0
    functions: tuple[int, int] = (0, 0)
    ending: bool = False
    deaths: int = 0
    died_at: float = 0.0
    again_at: float = 0.0


class Builds:
    """All builds of the daemon."""

    def __init__(self, context: CoreContext) -> None:
        self._context = context
        self._numbers = 0
        self._by_key: dict[str, Build] = {}
        self._running: dict[int, Build] = {}
        self._waiting: deque[Build] = deque()
        self._pausing: dict[int, Build] = {}
        self._results: OrderedDict[str, BuildResult] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of builds that run or wait."""
        return len(self._by_key)

    def ask(self, key: str, stream: StreamToBuild, waiter: bytes, process: str = "") -> None:
        """Add a waiter, of a client's process, to its build, which begins if there is none."""
        if key in self._results:
            self._results.move_to_end(key)
        build = self._by_key.get(key)
        if build is None:
            self._numbers += 1
            build = self._by_key[key] = Build(self._numbers, key, stream, process)
            self._waiting.append(build)
        build.waiters.append(waiter)
        self._start()

    def done(self, result: BuildResult) -> list[bytes]:
        """Keep a result; return its waiters."""
        build = self._end(result.build)
        if build is None:
            return []
        self._results[build.key] = result
        while len(self._results) > self._context.settings.cached_builds:
            self._results.popitem(last=False)
        return build.waiters

    def failed(self, number: int) -> list[bytes]:
        """Forget a failed build; return its waiters."""
        build = self._end(number)
        return build.waiters if build else []

    def progress(self, event: BuildProgress) -> None:
        """Note that a build has made progress."""
        build = self._running.get(event.build)
        if build is not None:
            build.progress_at = self._context.now
            build.functions = max(build.functions, (event.done, event.total))

    def functions(self, key: str) -> tuple[int, int]:
        """Return how many functions a build has, of how many; (0, 0) if that is not known."""
        build = self._by_key.get(key)
        return (0, 0) if build is None else build.functions

    def died(self, number: int, reason: str) -> tuple[list[bytes], ResourceError] | None:
        """Start a build again later whose process was killed; its waiters and error if it fails."""
        build = self._running.pop(number, None)
        if build is None:
            return None
        settings, now = self._context.settings, self._context.now
        build.deaths += 1
        build.died_at = build.died_at if build.deaths > 1 else now
        self._context.log("warning", "builder_down", build=number, reason=reason)
        if now - build.died_at >= settings.start_deadline_s:
            del self._by_key[build.key]
            self._start()
            return build.waiters, ResourceError(
                f"the process that builds the pipeline was killed {build.deaths} times in a row,"
                f" the last: {reason}; see the logs of the daemon and of the host (memory?)",
                deaths=build.deaths,
            )
        build.again_at = now + backoff_s(settings, build.deaths)
        build.functions = (0, 0)
        self._pausing[number] = build
        self._start()
        return None

    def tick(self) -> None:
        """End builds without progress, and start those again whose pause is over."""
        settings, now = self._context.settings, self._context.now
        for build in self._running.values():
            if not build.ending and now - build.progress_at > settings.build_deadline_s:
                build.ending = True
                reason = f"made no progress for {settings.build_deadline_s:g} s"
                self._context.log("warning", "build_hangs", build=build.number, reason=reason)
                self._context.out.append(EndBuild(build.number, reason))
        for number, build in list(self._pausing.items()):
            if build.again_at <= now:
                del self._pausing[number]
                self._waiting.appendleft(build)
        self._start()

    def forget(self, result: BuildResult) -> None:
        """Drop a result that a worker could not use: the dataset or the pipeline has changed."""
        for key, kept in list(self._results.items()):
            if kept is result:
                del self._results[key]

    def leave(self, key: str, waiter: bytes) -> None:
        """Remove a waiter; a build is ended with its last waiter."""
        build = self._by_key.get(key)
        if build is None or waiter not in build.waiters:
            return
        build.waiters.remove(waiter)
        if build.waiters:
            return
        del self._by_key[key]
        if self._running.pop(build.number, None) is not None:
            self._context.out.append(EndBuild(build.number, "is not wanted any more"))
            self._start()
        elif self._pausing.pop(build.number, None) is None:
            self._waiting.remove(build)

    def _end(self, number: int) -> Build | None:
        build = self._running.pop(number, None)
        if build is not None:
            del self._by_key[build.key]
        self._start()
        return build

    def _next(self) -> Build:
        """Return the next build: the first one of a client without a running build, else the first.

        So a client whose builds hang delays those of others by one deadline, however many it has.
        """
        served = {build.process for build in self._running.values()}
        others = (build for build in self._waiting if build.process not in served)
        build = next(others, self._waiting[0])
        self._waiting.remove(build)
        return build

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._context.settings.concurrent_builds:
            build = self._next()
            self._running[build.number] = build
            build.progress_at = self._context.now
            self._context.counts.builds += 1
            known = self._results.get(build.key)
            self._context.out.append(StartBuild(BuildRequest(build.number, build.stream, known)))
