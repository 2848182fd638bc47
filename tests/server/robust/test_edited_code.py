"""Files of users that are edited while a daemon runs: a new stream runs the new code."""

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from daemons import children

from stoker.protocol.errors import BuildError, UsageError

pytestmark = pytest.mark.slow

PIPELINE = """
import edited_parts
from stoker import ops
from stoker.ops import define
from stoker.pipeline import pipeline

LEVEL = {level}


@define()
def painted(src, dst, params, record, scratch):
    for y in range(src.shape[0]):
        for x in range(src.shape[1]):
            for c in range(src.shape[2]):
                dst[y, x, c] = LEVEL


def added(image):
    return image * 0 + edited_parts.STEP


@pipeline
def train(sample):
    image = ops.center_crop(sample.image, size=4)
    return {{
        "traced": ops.pad(image, padding=1, fill={level}),
        "painted": painted()(image),
        "added": ops.python(added, image, randomness="none"),
    }}


@pipeline
def only_op(sample):
    return {{"painted": painted()(ops.center_crop(sample.image, size=4))}}
"""


def write(folder: Path, level: int) -> None:
    """Write both files, as an editor does: a new file, whose time is another one."""
    texts = {"edited_code": PIPELINE.format(level=level), "edited_parts": f"STEP = {level}\n"}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
        os.utime(folder / f"{name}.py", (level, level))


def levels(batch) -> tuple[set[int], ...]:
    """The levels that each kind of code gave."""
    corner = np.asarray(batch["traced"])[:, 0, 0]
    return tuple(
        set(np.unique(part).tolist()) for part in (corner, batch["painted"], batch["added"])
    )


@pytest.fixture
def edited(folder, serve):
    """A daemon with one worker, and the folder of the files that it imports."""
    code = folder / "code"
    code.mkdir()
    write(code, 11)
    return code, serve(
        f"--python-path={code}",
        "--pipeline=edited=edited_code:train",
        "--pipeline=only_op=edited_code:only_op",
        workers=1,
        warm=True,
    )


def test_a_new_stream_runs_the_edited_code(edited, loader):
    code, daemon = edited
    with loader(daemon, "edited", batch_size=2, prefetch=1) as old:
        batches = iter(old)
        assert levels(next(batches)) == ({11}, {11}, {11})
        write(code, 22)
        with loader(daemon, "edited", batch_size=2) as new:
            assert {str(levels(batch)) for batch in new} == {str(({22}, {22}, {22}))}
        assert {str(levels(batch)) for batch in batches} == {str(({11}, {11}, {11}))}
    write(code, 33)
    with loader(daemon, "edited", batch_size=2) as third:
        assert levels(next(iter(third))) == ({33}, {33}, {33})


def test_a_group_and_a_replay_name_the_edited_file(edited, loader):
    """The op has the same version, so the stream is the same by its id."""
    code, daemon = edited
    ops_alone = {"pipeline": "only_op", "batch_size": 2, "prefetch": 1}
    with loader(daemon, **ops_alone, group="trainers") as first:
        batch = next(iter(first))
        assert set(np.unique(batch["painted"])) == {11}
        assert first.replay(3, 0).outputs[0].array.max() == 11
        write(code, 22)
        file = re.escape(str(code / "edited_code.py"))
        with (
            pytest.raises(UsageError, match=f"group 'trainers': {file} was edited after the first"),
            loader(daemon, **ops_alone, group="trainers") as second,
        ):
            next(iter(second))
        with pytest.raises(BuildError, match=f"{file} was edited after this stream was opened"):
            first.replay(3, 0)


def test_a_worker_that_starts_after_an_edit_refuses_the_old_stream(edited, loader):
    code, daemon = edited
    with loader(daemon, "edited", batch_size=1, prefetch=1) as old:
        batches = iter(old)
        assert levels(next(batches)) == ({11}, {11}, {11})
        write(code, 22)
        (template,) = children(daemon.pid)
        (worker,) = children(template)
        os.kill(worker, signal.SIGKILL)
        file = re.escape(str(code))
        with pytest.raises(BuildError, match=rf"{file}/.*\.py was edited after this stream"):
            list(batches)
        with loader(daemon, "edited", batch_size=1) as new:
            assert levels(next(iter(new))) == ({22}, {22}, {22})
