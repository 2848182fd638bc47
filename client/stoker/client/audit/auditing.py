"""`audit`: plans the runs of a loader, performs each once, and asks the questions."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from stoker.client.audit import loader_questions as asking
from stoker.client.audit.audited_run import AuditedRun
from stoker.client.audit.loader_questions import QUESTIONS, AuditAnswer, AuditReport
from stoker.client.audit.run_processes import perform
from stoker.client.audit.seen_batches import SeenLoop, SeenRun
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import as_integer

BATCHES = 50
TIMEOUT_S = 300.0


def audit(
    loader: str,
    *,
    batches: int = BATCHES,
    timeout_s: float = TIMEOUT_S,
    ids: str | None = None,
    evaluation: bool = False,
    questions: Sequence[str] = (),
    python_path: Sequence[str] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> AuditReport:
    """Run a loader in several ways, each in a process of its own, and compare what it delivers.

    Args:
        loader: `module:function`. The function returns an iterable of batches. It may take, by name
            and all optional: `workers` (0, 1, 2), `seed` (0, 1), `epoch` (0, 1), `rank` and
            `world_size` (rank 0 of 1, ranks 0 and 1 of 2), and `only` (None, or the number of a
            sample: all samples are that one). Questions about others cannot be asked.
        batches: to read of each epoch, at most.
        timeout_s: for each run; one that takes longer is ended, and is a finding.
        ids: output that holds sample ids; None takes `index`, `id` or a similar one, if there is.
        evaluation: whether seed and epoch must change nothing, as in a validation.
        questions: those of `QUESTIONS` to ask; all, if it is empty.
        python_path: folders to import the module from, besides the working folder.
        progress: called with the name of each run before it begins.

    Raises:
        UsageError: a number is out of bounds, or there is no such question.
    """
    if (as_integer(batches) or 0) < 1:
        raise UsageError(f"audit: batches={batches!r}: expected an integer from 1")
    if not 0 < timeout_s <= 86400:
        raise UsageError(f"audit: timeout_s={timeout_s!r}: expected seconds, up to 86400")
    for name in questions:
        if name not in QUESTIONS:
            raise UsageError(f"audit: question {name!r}: expected one of {', '.join(QUESTIONS)}")
    folders = [os.path.abspath(folder) for folder in (*python_path, os.curdir)]
    run = AuditedRun(
        factory=loader, batches=batches, ids=ids, python_path=folders, timeout_s=timeout_s,
        arguments={
            "workers": 0, "seed": 0, "epoch": 0, "rank": 0, "world_size": 1, "only": None,
        },
    )  # fmt: skip
    return _Audit(run, evaluation, progress).report(questions or [*QUESTIONS])


class _Audit:
    """The runs of one audit; each is performed once, when a question first needs it."""

    def __init__(self, run: AuditedRun, fixed: bool, progress: Callable[[str], None]) -> None:
        self._run = run
        self._fixed = fixed
        self._progress = progress
        self._done: dict[str, SeenRun] = {}
        self._takes: Sequence[str] = ()
        self._others: Sequence[str] = ()

    def report(self, questions: Sequence[str]) -> AuditReport:
        """Ask the questions, in the order of `QUESTIONS`."""
        wanted = [name for name in QUESTIONS if name in questions]
        base = self._perform("a first run")
        self._takes, self._others = base.takes, base.others
        failed = asking.failure(wanted[0], base, "the first run")
        if failed:
            others = [asking.not_asked(name, "the first run failed") for name in wanted[1:]]
            return AuditReport(self._run.factory, (failed, *others))
        answers = [getattr(self, f"_{name}")() for name in wanted]
        if "repeat" in wanted and answers[wanted.index("repeat")].is_finding:
            answers = [answers[0], *map(_doubted, answers[1:])]
        return AuditReport(self._run.factory, tuple(answers))

    def _perform(
        self, name: str, *, loops: int = 1, resume_at: int = 0, **arguments: int
    ) -> SeenRun:
        """Perform a run whose arguments differ from those of the first one; `name` is its own."""
        run = msgspec.structs.replace(
            self._run, arguments=self._run.arguments | arguments, loops=loops, resume_at=resume_at
        )
        if name not in self._done:
            self._progress(name)
            self._done[name] = perform(run)
        return self._done[name]

    @property
    def _first(self) -> SeenLoop:
        return self._perform("a first run").loop

    def _again(self) -> SeenRun:
        """Perform the first run again, for two epochs if the factory does not take them."""
        return self._perform("the same again", loops=1 if "epoch" in self._takes else 2)

    def _workers_of(self, count: int) -> SeenRun:
        return self._perform(_workers_in_words(count), workers=count)

    def _lacks(self, question: str, *names: str) -> AuditAnswer | None:
        """Return that the factory does not take what a question needs."""
        missing = [name for name in names if name not in self._takes]
        if not missing:
            return None
        needed = " and ".join(f"{name}=" for name in missing)
        others = "".join(f", {name}=" for name in self._others)
        but = f"; its other arguments are {others[2:]}" if others else ""
        return asking.not_asked(question, f"{self._run.factory} takes no {needed}{but}")

    def _repeat(self) -> AuditAnswer:
        again = self._again()
        return asking.failure("repeat", again, "the same again") or asking.expect_same(
            "repeat", [("one run", self._first), ("another", again.loop)]
        )

    def _workers(self) -> AuditAnswer:
        lacks = self._lacks("workers", "workers")
        if lacks:
            return lacks
        loops = [("no worker", self._first)]
        for count in (1, 2):
            run = self._workers_of(count)
            failed = asking.failure("workers", run, f"workers={count}")
            if failed:
                return failed
            loops.append((_workers_in_words(count), run.loop))
        return asking.expect_same("workers", loops)

    def _rows(self) -> AuditAnswer:
        lacks = self._lacks("rows", "workers")
        if lacks:
            return lacks
        run = self._workers_of(2)
        return asking.failure("rows", run, "workers=2") or asking.rows_answer(self._first, run.loop)

    def _draws(self) -> AuditAnswer:
        lacks = self._lacks("draws", "workers", "only")
        if lacks:
            return lacks
        alone = self._perform("one sample, 0 workers", only=0)
        by_loops = "epoch" not in self._takes
        two = self._perform("one sample, 2 workers", only=0, workers=2, loops=2 if by_loops else 1)
        following = two if by_loops else self._perform(
            "one sample, 2 workers, epoch 1", only=0, workers=2, epoch=1
        )  # fmt: skip
        for run, name in ((alone, "workers=0"), (two, "workers=2"), (following, "epoch=1")):
            failed = asking.failure("draws", run, f"only=0, {name}")
            if failed:
                return failed
        return asking.draws_answer(alone.loop, two.loop, following.loops[-1])

    def _seeds(self) -> AuditAnswer:
        lacks = self._lacks("seeds", "seed")
        if lacks:
            return lacks
        run = self._perform("seed 1", seed=1)
        return asking.failure("seeds", run, "seed=1") or asking.expect_other(
            "seeds", ("seed 0", self._first), ("seed 1", run.loop), fixed=self._fixed
        )

    def _epochs(self) -> AuditAnswer:
        by_loops = "epoch" not in self._takes
        run = self._again() if by_loops else self._perform("epoch 1", epoch=1)
        failed = asking.failure("epochs", run, "a second loop" if by_loops else "epoch=1")
        if failed:
            return failed
        zero, one = run.loops if by_loops else (self._first, run.loop)
        if not one.batches:
            seen = "the second loop over the loader delivers no batches"
            return AuditAnswer("epochs", asking.FAILED, True, seen)
        return asking.expect_other("epochs", ("epoch 0", zero), ("epoch 1", one), fixed=self._fixed)

    def _ranks(self) -> AuditAnswer:
        lacks = self._lacks("ranks", "rank", "world_size")
        if lacks:
            return lacks
        zero, one = (self._perform(f"rank {rank} of 2", rank=rank, world_size=2) for rank in (0, 1))
        for rank, run in enumerate((zero, one)):
            failed = asking.failure("ranks", run, f"rank={rank}, world_size=2")
            if failed:
                return failed
        return asking.ranks_answer(zero.loop, one.loop)

    def _resume(self) -> AuditAnswer:
        count = len(self._first.batches)
        if count < 2:
            return asking.not_asked("resume", "an epoch has one batch")
        half = count // 2
        run = self._perform("a resume", resume_at=half)
        if run.missing:
            return asking.not_asked("resume", run.missing)
        rest = replace(self._first, batches=self._first.batches[half:])
        return asking.failure("resume", run, f"saved after {half} batches") or asking.expect_same(
            "resume", [(f"what followed batch {half - 1}", rest), ("the resumed loop", run.loop)]
        )


def _workers_in_words(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _doubted(answer: AuditAnswer) -> AuditAnswer:
    """Return an answer of a loader whose equal runs differ."""
    if answer.answer != asking.DIFFERS:
        return answer
    return replace(answer, evidence=f"{answer.evidence}; so do two equal runs")
