"""The surroundings of the core in the simulation: builds, replays, memory, workers."""

import zlib
from collections import defaultdict

from simulated_client import REPLAY
from simulated_worker import Worker

from stoker.protocol.slot_layout import Output
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.work.work_records import BuildResult, BuiltSource


class Outside:
    """Carries out instructions; `World` has the clock and the core."""

    def do_StartBuild(self, do: ins.StartBuild) -> None:
        number = do.request.build
        assert number not in self.builds
        self.builds.add(number)
        assert len(self.builds) <= self.settings.concurrent_builds
        digest = zlib.crc32(do.request.stream.sources[0].pipeline.encode())
        outputs = (Output("x", "uint8", (digest % 900 + 1,)),)
        rows, name = self.random.choice([40, 100, 1000]), f"{digest:032x}"
        source = BuiltSource("", "content:" + "0" * 32, rows, name, b"")
        built = BuildResult(
            number, source.fingerprint, rows, name, outputs, (source,),
            group_rows=self.random.choice([1, 1, 1, 1, 8]), decoded_bytes=9, usual_bytes=9,
        )  # fmt: skip

        def end() -> None:
            if number not in self.builds:  # it was ended
                return
            self.builds.discard(number)
            if self.chance(self.faults):
                self.event(ev.BuildFailed, number, "build", "no such op", {})
            elif self.chance(self.faults):
                self.event(ev.BuildDied, number, "killed by SIGKILL")
            else:
                self.event(ev.Built, built)

        if not self.chance(0.1):  # else it hangs until its deadline
            self.later(self.random.uniform(0, 3), end)

    def do_EndBuild(self, do: ins.EndBuild) -> None:
        self.builds.remove(do.build)
        self.later(0, lambda: self.event(ev.BuildFailed, do.build, "build", do.reason, {}))

    def do_StartReplay(self, do: ins.StartReplay) -> None:
        number = do.request.replay
        self.replays.add(number)
        assert len(self.replays) <= self.settings.concurrent_replays

        def end() -> None:
            if self.chance(self.faults):
                self.replays.discard(number)
                self.event(ev.ReplayFailed, number, "sample", "cannot decode it", {})
            else:
                self.event(ev.ReplayEnded, number, 4096)

        if not self.chance(0.1):  # else it hangs until its deadline
            self.later(self.random.uniform(0, 3), end)

    def do_SendReplay(self, do: ins.SendReplay) -> None:
        self.replays.remove(do.replay)
        assert do.request == REPLAY

    def do_DropReplay(self, do: ins.DropReplay) -> None:
        self.replays.discard(do.replay)

    def do_CompileDecoder(self, do: ins.CompileDecoder) -> None:
        assert not self.compiling, "one at a time"
        self.compiling = True

        self.compilers += 1
        number = self.compilers

        def end() -> None:
            if number != self.compilers or not self.compiling:  # it was ended
                return
            self.compiling = False
            if self.chance(self.faults):
                self.event(ev.DecoderFailed, "signal 9", self.chance(0.9))
            else:
                self.compiled = max(self.compiled, do.form)
                self.event(ev.DecoderReady)

        if not self.chance(0.1):  # else it hangs until its deadline
            for seconds in (3, 6):
                self.later(seconds, lambda: self.event(ev.DecoderProgress))
            self.later(self.random.uniform(0, 9), end)

    def do_EndDecoder(self, do: ins.EndDecoder) -> None:
        assert self.compiling, "only one that compiles is ended"
        self.compiling = False
        self.later(0, lambda: self.event(ev.DecoderFailed, do.reason, True))

    def do_TellDecoder(self, do: ins.TellDecoder) -> None:
        assert do.form <= self.compiled, "it is not compiled yet"
        if do.worker not in self.workers:
            return
        if self.chance(self.faults) and self.workers[do.worker].own_decoder < do.form:
            self.later(0, lambda: self.event(ev.DecoderMissed, do.worker))
        else:
            self.workers[do.worker].own_decoder = do.form

    def do_ReserveSlab(self, do: ins.ReserveSlab) -> None:
        self.reserved[do.slab] = do.size_bytes
        assert sum(self.reserved.values()) <= self.settings.memory_limit_bytes

        def end() -> None:
            if self.chance(self.faults):
                del self.reserved[do.slab]
                self.event(ev.SlabRefused, do.slab, "no memory")
            else:
                self.memory[do.slab] = defaultdict(dict)
                self.event(ev.SlabReserved, do.slab)

        self.later(self.random.uniform(0, 1), end)

    def do_GrowSlab(self, do: ins.GrowSlab) -> None:
        assert do.slab not in self.growing, "one growth of a slab at a time"
        self.growing.add(do.slab)
        size_bytes = len(do.slots) * do.slot_bytes
        self.reserved[do.slab] += size_bytes
        assert sum(self.reserved.values()) <= self.settings.memory_limit_bytes

        def end() -> None:
            self.growing.discard(do.slab)
            if self.chance(self.faults):
                if do.slab in self.reserved:
                    self.reserved[do.slab] -= size_bytes
                self.seen["growth refused"] += 1
                self.event(ev.SlabRefused, do.slab, "no memory")
            else:
                self.event(ev.SlabReserved, do.slab)

        self.later(self.random.uniform(0, 1), end)

    def do_ShrinkSlab(self, do: ins.ShrinkSlab) -> None:
        self.reserved[do.slab] -= len(do.slots) * do.slot_bytes
        for slot in do.slots:
            assert not self.holder(do.slab, slot)
            for worker in self.workers.values():
                assert all((w.slab, w.slot) != (do.slab, slot) for w in worker.writing())
            self.memory[do.slab].pop(slot, None)

    def do_FreeSlab(self, do: ins.FreeSlab) -> None:
        for worker in self.workers.values():
            assert all(work.slab != do.slab for work in worker.writing())
        del self.memory[do.slab], self.reserved[do.slab]

    def do_StartWorker(self, do: ins.StartWorker) -> None:
        assert do.worker not in self.workers
        assert do.worker == 1 + max([0, *self.workers])
        self.workers[do.worker] = Worker(self, do.worker)

    def do_KillWorker(self, do: ins.KillWorker) -> None:
        self.workers[do.worker].killed()

    def do_TellStream(self, do: ins.TellStream) -> None:
        self.workers[do.worker].tell(do.stream)

    def do_ForgetStream(self, do: ins.ForgetStream) -> None:
        self.workers[do.worker].forget(do.stream)

    def do_Assign(self, do: ins.Assign) -> None:
        for work in do.work:
            for other in self.workers.values():
                for mine in other.writing():
                    if (mine.slab, mine.slot) == (work.slab, work.slot):
                        assert mine.generation == work.generation, (mine, work)
                        assert mine.row_hi <= work.row_lo or work.row_hi <= mine.row_lo
            assert not self.holder(work.slab, work.slot), work
            self.workers[do.worker].assign(work)

    def do_Recall(self, do: ins.Recall) -> None:
        worker = self.workers[do.worker]
        unread = [work for work in worker.queue[1:] if work.claim == do.claim]
        if unread and worker.queue[-1] is unread[0] and self.random.random() < 0.9:
            del worker.queue[-1]
            self.later(0.0, lambda: self.event(ev.Recalled, do.worker, do.claim))

    def do_Quarantine(self, do: ins.Quarantine) -> None:
        assert len(do.bad) == 1

    def do_Log(self, do: ins.Log) -> None:
        self.seen[do.event] += 1

    def do_Exit(self, do: ins.Exit) -> None:
        self.exit = do.code
