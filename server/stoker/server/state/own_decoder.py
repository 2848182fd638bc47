"""Compiles Stoker's own decoder of JPEGs during the work, with `daemon.jpeg = "auto"`.

    not wanted -> wanted -> compiling -> ready
                    ^           |
                    +-- pause --+-- it failed, or died for the last time -> given up

A worker that meets JPEGs for the decoder wants it; until it is ready, workers use libjpeg-turbo,
with the same pixels. It is compiled once no pipeline is being built. A process that makes no
progress for `build_deadline_s`, for example because it is stopped, is ended. If its process dies,
another one starts after a pause that doubles, `MOST_DEATHS` times at most. If it is ready, all
workers load it, and each later one as soon as it is up. If one of them does not find it, because
the cache was emptied meanwhile, it is compiled again, as after a death; others go on with it.

Its forms are numbers from 1, each of which includes those before it (`decoding.choice`). If workers
want a later form than the one that is ready, they go on with that while the later one is compiled.
"""

from typing import Final

from stoker.server.state.builds import Builds
from stoker.server.state.core_context import CoreContext, backoff_s
from stoker.server.state.core_instructions import CompileDecoder, EndDecoder, TellDecoder
from stoker.server.state.events import DecoderFailed, DecoderMissed
from stoker.server.state.workers import Pool

MOST_DEATHS: Final = 4


class OwnDecoder:
    """The decoder's way from the first file that wants it to all workers."""

    def __init__(self, context: CoreContext, pool: Pool, builds: Builds) -> None:
        self._context = context
        self._pool = pool
        self._builds = builds
        self._wanted_at = 0.0
        self._wanted = 0
        self._compiling = 0
        self._progress_at = 0.0
        self._ready = 0
        self._given_up = False
        self._deaths = 0
        self._again_at = 0.0

    @property
    def serves(self) -> bool:
        """True if workers use Stoker's own decoder for what it covers."""
        return self._ready > 0 or self._context.settings.jpeg == "stoker"

    def want(self, form: int) -> None:
        """Note that a worker waits for a form of the decoder."""
        if form > self._wanted:
            self._wanted, self._wanted_at = form, self._context.now
            self.tick()

    def ready(self) -> None:
        """Tell all workers that it is compiled."""
        self._compiling, self._ready = 0, self._compiling
        seconds = round(self._context.now - self._wanted_at, 3)
        self._context.log("info", "own_decoder_ready", seconds=seconds)
        for worker in self._pool.workers.values():
            if worker.up:
                self.worker_up(worker.number)

    def worker_up(self, worker: int) -> None:
        """Tell a worker, if it is compiled."""
        if self._ready:
            self._context.out.append(TellDecoder(worker, self._ready))

    def progress(self) -> None:
        """Note that its compiler makes progress."""
        self._progress_at = self._context.now

    def failed(self, event: DecoderFailed) -> None:
        """Compile it again later if its process died; otherwise libjpeg-turbo stays."""
        self._compiling = 0
        self._lost(event.reason, event.died)

    def missed(self, event: DecoderMissed) -> None:
        """Compile it again later: a worker did not find it."""
        if self._ready:  # the first of the workers that were told
            self._ready = 0
            why = f"the kernel cache had lost it when worker {event.worker} was told to load it"
            self._lost(why, is_again=True)

    def _lost(self, reason: str, is_again: bool) -> None:
        self._deaths += 1
        self._given_up = not is_again or self._deaths >= MOST_DEATHS
        self._again_at = self._context.now + backoff_s(self._context.settings, self._deaths)
        then = "it is compiled again soon"
        if self._given_up:
            then = (
                "libjpeg-turbo decodes until the daemon starts again, with the same pixels; remove"
                " the cause, compile ahead with `stoker warm`, or set daemon.jpeg to libjpeg"
            )
        self._context.log("warning", "own_decoder_failed", reason=reason, then=then)

    def tick(self) -> None:
        """Compile it once it is wanted, its pause is over, and no pipeline is being built.

        Its compiler is ended if it makes no progress.
        """
        limit = self._context.settings.build_deadline_s
        if self._compiling and self._context.now - self._progress_at > limit:
            self._progress_at = self._context.now
            self._context.out.append(EndDecoder(f"made no progress for {limit:g} s"))
        done = self._compiling or self._wanted <= self._ready or self._given_up
        if done or self._pool.closed or len(self._builds):
            return
        if self._context.now >= self._again_at:
            self._compiling, self._progress_at = self._wanted, self._context.now
            self._context.counts.decoder_compilations += 1
            self._context.out.append(CompileDecoder(self._wanted))
