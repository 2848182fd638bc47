"""Builds of pipelines for datasets: one build for all sessions that need it; results are cached.

The key of a build is (dataset path, `module:attr` or graph, ...). At most `concurrent_builds` run
at a time, the others wait in order. At most `cached_builds` results are kept; the least recently
used one is dropped first. A failed build is forgotten, because its cause may have been fixed.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from stoker.server.state.context import Context
from stoker.server.state.instructions import StartBuild
from stoker.server.work.records import BuildRequest, BuildResult

Key = tuple[str, str, bytes, bytes, int, bytes]
"""Path of the dataset, `module:attr`, graph data; with buckets also the request, batch size and
exclude list, which are empty otherwise."""


@dataclass(slots=True)
class Build:
    """A running or waiting build, and the sessions that wait for its result."""

    number: int
    key: Key
    waiters: list[bytes] = field(default_factory=list)


class Builds:
    """All builds of the daemon."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._numbers = 0
        self._by_key: dict[Key, Build] = {}
        self._running: dict[int, Build] = {}
        self._waiting: deque[Build] = deque()
        self._results: OrderedDict[Key, BuildResult] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of builds that run or wait."""
        return len(self._by_key)

    def ask(self, key: Key, waiter: bytes) -> BuildResult | None:
        """Return a cached result, or add the waiter to its build."""
        if (result := self._results.get(key)) is not None:
            self._results.move_to_end(key)
            return result
        build = self._by_key.get(key)
        if build is None:
            self._numbers += 1
            build = self._by_key[key] = Build(self._numbers, key)
            self._waiting.append(build)
        build.waiters.append(waiter)
        self._start()
        return None

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

    def forget(self, result: BuildResult) -> None:
        """Drop a result that a worker could not use: the dataset or the pipeline has changed."""
        for key, kept in list(self._results.items()):
            if kept is result:
                del self._results[key]

    def leave(self, key: Key, waiter: bytes) -> None:
        """Remove a waiter; a build that has not started is dropped with its last waiter."""
        build = self._by_key.get(key)
        if build is None or waiter not in build.waiters:
            return
        build.waiters.remove(waiter)
        if not build.waiters and build.number not in self._running:
            self._waiting.remove(build)
            del self._by_key[key]

    def _end(self, number: int) -> Build | None:
        build = self._running.pop(number, None)
        if build is not None:
            del self._by_key[build.key]
        self._start()
        return build

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._context.settings.concurrent_builds:
            build = self._waiting.popleft()
            self._running[build.number] = build
            self._context.counts.builds += 1
            self._context.out.append(StartBuild(BuildRequest(build.number, *build.key)))
