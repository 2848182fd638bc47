"""The questions of an audit, and their answers: pure functions of the batches of its runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stoker.client.audit.seen_batches import SeenLoop, SeenRun
from stoker.client.row_summaries import difference_of

SAME: Final = "same"
DIFFERS: Final = "differs"
DUPLICATES: Final = "duplicates"
CONSTANT: Final = "constant"
FAILED: Final = "failed"
NOT_ASKED: Final = "not asked"

QUESTIONS: Final = {
    "repeat": "two equal runs give the same batches",
    "workers": "0, 1 and 2 workers give the same batches",
    "rows": "2 workers deliver no row more often than 0 workers",
    "draws": "2 workers draw new numbers for each row, and for each epoch",
    "seeds": "another seed gives other batches",
    "epochs": "the next epoch gives other batches, in another order",
    "ranks": "2 ranks have no row in common",
    "resume": "a loader that was stopped goes on with the same batches",
}
"""Name -> the promise that a finding breaks, in the order of a report."""

REPEATED: Final = 0.25
"""From this part on, rows that repeat an earlier one are a finding."""


@dataclass(frozen=True)
class AuditAnswer:
    """The answer to one question.

    Attributes:
        question: one of `QUESTIONS`.
        answer: "same", "differs", "duplicates", "constant", "failed" or "not asked".
        is_finding: whether it breaks the promise.
        evidence: what was seen, and where first.
    """

    question: str
    answer: str
    is_finding: bool
    evidence: str


@dataclass(frozen=True)
class AuditReport:
    """All answers; as text, a line each."""

    loader: str
    answers: tuple[AuditAnswer, ...]

    @property
    def findings(self) -> tuple[AuditAnswer, ...]:
        """The answers that break a promise."""
        return tuple(one for one in self.answers if one.is_finding)

    def __str__(self) -> str:
        lines = [
            f"{'FINDING' if one.is_finding else '-' if one.answer == NOT_ASKED else 'ok':<8}"
            f"{one.question:<9}{one.answer:<11} {one.evidence}"
            for one in self.answers
        ]
        asked = sum(one.answer != NOT_ASKED for one in self.answers)
        count = len(self.findings)
        lines.append(
            f"{self.loader}: {count} finding{'s' * (count != 1)} in {asked} of"
            f" {len(self.answers)} questions"
        )
        return "\n".join(lines)


def not_asked(question: str, why: str) -> AuditAnswer:
    """Return that a question could not be asked."""
    return AuditAnswer(question, NOT_ASKED, False, why)


def failure(question: str, run: SeenRun, what: str) -> AuditAnswer | None:
    """Return that a run failed, if it did; `what` names it."""
    return AuditAnswer(question, FAILED, True, f"{what}: {run.failed}") if run.failed else None


def expect_same(question: str, loops: Sequence[tuple[str, SeenLoop]]) -> AuditAnswer:
    """Compare loops that must be alike with the first one, each with its name."""
    (first, wanted), *others = loops
    for name, loop in others:
        difference = loop_difference(wanted, loop)
        if difference:
            return AuditAnswer(question, DIFFERS, True, f"{name} against {first}: {difference}")
    names = ", ".join(name for name, _ in loops)
    return AuditAnswer(question, SAME, False, f"{_extent(wanted)}: {names}")


def expect_other(
    question: str, one: tuple[str, SeenLoop], two: tuple[str, SeenLoop], *, fixed: bool
) -> AuditAnswer:
    """Compare two loops that must differ; `fixed` says that they must not."""
    (first, wanted), (second, loop) = one, two
    if fixed:
        return expect_same(question, [one, two])
    difference = loop_difference(wanted, loop)
    if not difference:
        seen = f"{second} is {first}, all {_extent(wanted)}"
        return AuditAnswer(question, CONSTANT, True, seen)
    if wanted.ids and wanted.ids == loop.ids:
        order = f"ids come in the same order in {first} and {second}"
        first_ids = f"{', '.join(wanted.ids[:4])}, ..."
        return AuditAnswer(question, CONSTANT, True, f"{order}: {first_ids}; only values differ")
    return AuditAnswer(question, DIFFERS, False, f"{second} against {first}: {difference}")


def rows_answer(alone: SeenLoop, workers: SeenLoop) -> AuditAnswer:
    """Compare how many rows come again without and with 2 workers."""
    by_id = bool(alone.ids and workers.ids)
    before, after = ((loop.ids if by_id else loop.rows) for loop in (alone, workers))
    usual, again = _again(before), _again(after)
    if again > usual:
        repeated = next(one for one, count in Counter(after).items() if count > 1)
        places = [place for place, one in enumerate(after) if one == repeated][:2]
        at = " and ".join(_place(workers, place) for place in places)
        named = f"id {repeated}" if by_id else "one row"
        seen = f"{again} of {len(after)} rows come again with 2 workers, {usual} with none"
        return AuditAnswer("rows", DUPLICATES, True, f"{seen}: {named} is {at}")
    what = "ids" if by_id else "rows (batches have no ids; name them with --ids)"
    seen = f"{again} of {len(after)} rows come again with 2 workers, {usual} with none; by {what}"
    return AuditAnswer("rows", DIFFERS if not again else SAME, False, seen)


def draws_answer(alone: SeenLoop, workers: SeenLoop, following: SeenLoop) -> AuditAnswer:
    """Compare draws: rows are all of one sample, so equal rows have equal draws.

    Args:
        alone: of a run without workers.
        workers: of one with 2 workers.
        following: of the next epoch of that.
    """
    if len(set(alone.rows)) == 1:
        return AuditAnswer(
            "draws", CONSTANT, False, "nothing is random: all rows of a sample are equal"
        )
    usual, again = _part_again(alone.rows), _part_again(workers.rows)
    if again >= REPEATED and again > 2 * usual:
        place, earlier = _first_again(workers.rows)
        seen = f"{100 * again:.0f} % of the draws of 2 workers come again, {100 * usual:.0f} %"
        at = f"{_place(workers, place)} draws what {_place(workers, earlier)} drew"
        return AuditAnswer("draws", DUPLICATES, True, f"{seen} without workers: {at}")
    if following.rows and Counter(following.rows) == Counter(workers.rows):
        seen = f"epoch 1 draws what epoch 0 drew, all {len(workers.rows)} rows, with 2 workers"
        return AuditAnswer("draws", CONSTANT, True, seen)
    seen = f"{100 * again:.0f} % of the draws of 2 workers come again, {100 * usual:.0f} % without"
    return AuditAnswer("draws", DIFFERS, False, f"{seen} workers; epoch 1 has draws of its own")


def ranks_answer(zero: SeenLoop, one: SeenLoop) -> AuditAnswer:
    """Compare two ranks, which must share no more rows than one that pads the last batch."""
    if not loop_difference(zero, one):
        return AuditAnswer("ranks", DUPLICATES, True, f"rank 1 is rank 0, all {_extent(zero)}")
    by_id = bool(zero.ids and one.ids)
    first, second = ((loop.ids if by_id else loop.rows) for loop in (zero, one))
    common = (Counter(first) & Counter(second)).total()
    if common > 1:
        shared = next(row for row in second if row in set(first))
        at = f"{_place(one, second.index(shared))} of rank 1 is"
        at += f" {_place(zero, first.index(shared))} of rank 0"
        seen = f"{common} of {len(second)} rows of rank 1 are also of rank 0"
        seen += f": id {shared}, {at}" if by_id else f": {at}"
        return AuditAnswer("ranks", DUPLICATES, True, seen)
    what = "ids" if by_id else "rows (batches have no ids; name them with --ids)"
    return AuditAnswer(
        "ranks", DIFFERS, False, f"{common} of {len(second)} rows in common; by {what}"
    )


def loop_difference(wanted: SeenLoop, found: SeenLoop) -> str:
    """Return where a loop first differs from another one, and how; nothing if it does not."""
    pairs = zip(wanted.batches, found.batches, strict=False)
    for number, (one, two) in enumerate(pairs):
        difference = difference_of(one.outputs, two.outputs, (one.ids, two.ids))
        if difference:
            return f"batch {number}, {difference}{_kind(wanted, found)}"
    counts = len(wanted.batches), len(found.batches)
    if counts[0] == counts[1]:
        return ""
    return f"{counts[1]} batches instead of {counts[0]}"


def _kind(wanted: SeenLoop, found: SeenLoop) -> str:
    """Return in words how two loops that differ are still alike; nothing if they are not."""
    if Counter(wanted.rows) == Counter(found.rows):
        return "; the same rows come in another order"
    if wanted.ids and wanted.ids == found.ids:
        return "; the same ids come in the same order with other values"
    return ""


def _again(values: Sequence[str]) -> int:
    """Return how many values are equal to an earlier one."""
    return len(values) - len(set(values))


def _part_again(values: Sequence[str]) -> float:
    return _again(values) / len(values) if values else 0.0


def _first_again(values: Sequence[str]) -> tuple[int, int]:
    """Return the first place whose value came before, and where that was."""
    places: dict[str, int] = {}
    for place, value in enumerate(values):
        if value in places:
            return place, places[value]
        places[value] = place
    raise ValueError("no value comes again")


def _place(loop: SeenLoop, place: int) -> str:
    """Return the batch and row of a place among all rows."""
    for number, batch in enumerate(loop.batches):
        if place < len(batch.rows):
            return f"batch {number} row {place}"
        place -= len(batch.rows)
    raise ValueError("the loop has no such row")


def _extent(loop: SeenLoop) -> str:
    kind = "the whole epoch" if loop.ended else "the first of an epoch"
    return f"{len(loop.batches)} batches ({kind}), {len(loop.rows)} rows"
