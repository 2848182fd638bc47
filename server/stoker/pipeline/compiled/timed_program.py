"""The timed copy of a program: the same instructions, with marks between the stages.

A machine holds both, one behind the other, and its loop chooses for each row, so a row that is not
timed costs nothing. A mark changes no value. It stands where the stage of the next instruction
differs, at the target of every jump, and at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stoker.pipeline.compiled.loop_instructions import CODES, FORMS, WIDTH
from stoker.pipeline.engine.stage_clock import OTHER

_JUMPS = {CODES[name]: 1 + FORMS[name].index("to") for name in ("unless", "goto")}


def with_timed_copy(code: np.ndarray, stages: Sequence[int]) -> tuple[np.ndarray, list[int]]:
    """Return a program followed by its timed copy, and the stage of each line of both.

    Args:
        code: (n, WIDTH) int64, with the addresses of its functions.
        stages: the stage of each line.
    """
    targets = {int(line[_JUMPS[line[0]]]) for line in code if line[0] in _JUMPS}
    copy: list[np.ndarray] = []
    of_copy: list[int] = []
    moved: list[int] = []
    for line, stage in enumerate(stages):
        moved.append(len(code) + len(copy))
        if not line or line in targets or stage != stages[line - 1]:
            copy.append(_mark(stage))
            of_copy.append(stage)
        copy.append(code[line].copy())
        of_copy.append(stage)
    moved.append(len(code) + len(copy))
    copy.append(_mark(OTHER))
    of_copy.append(OTHER)
    for words in copy:
        if words[0] in _JUMPS:
            to = _JUMPS[words[0]]
            words[to] = moved[words[to]]
    both = np.concatenate([code, np.array(copy, np.int64).reshape(-1, WIDTH)])
    return both, [*stages, *of_copy]


def _mark(stage: int) -> np.ndarray:
    words = np.zeros(WIDTH, np.int64)
    words[:2] = CODES["mark"], stage
    return words
