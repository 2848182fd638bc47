"""Files of users that are edited while a daemon runs: a new stream runs the new code."""

import importlib
import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from daemons import children

from stoker.protocol.errors import BuildError, ResumeError, UsageError

pytestmark = pytest.mark.slow

PIPELINE = """
import functools
import json
from pathlib import Path

import edited_parts
import numpy as np
from stoker import ops
from stoker.ops import define
from stoker.pipeline import pipeline

LEVEL = {level}


@define(version={version})
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


def folded(image):
    return image * 0 + TABLE["level"]


@functools.cache
def table():
    return np.load(Path(__file__).with_name("later.npy"))


def looked_up(image):
    return image * 0 + table()[0]


def noisy(image):
    return image + NOISE


NOISE = np.random.default_rng().integers(0, 256, 3, np.uint8)
TABLE = json.loads(Path(__file__).with_name("table.json").read_text())


@pipeline
def with_table(sample):
    image = ops.center_crop(sample.image, size=4)
    return {{"image": ops.python(folded, image, randomness="none")}}


@pipeline
def with_noise(sample):
    image = ops.center_crop(sample.image, size=4)
    return {{"image": ops.python(noisy, image, randomness="none")}}


@pipeline
def with_later(sample):
    image = ops.center_crop(sample.image, size=4)
    return {{"image": ops.python(looked_up, image, randomness="none")}}
"""


def write(folder: Path, level: int, version: int = 1) -> None:
    """Write both files, as an editor does: a new file, whose time is another one."""
    text = PIPELINE.format(level=level, version=version)
    texts = {"edited_code": text, "edited_parts": f"STEP = {level}\n"}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
        os.utime(folder / f"{name}.py", (level, level))
    write_data(folder, level)


def write_data(folder: Path, level: int) -> None:
    """Write the data files that the code reads."""
    (folder / "table.json").write_text(json.dumps({"level": level}))
    np.save(folder / "later.npy", np.array([level], np.uint8))


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
        "--op-module=edited_code",
        "--pipeline=edited=edited_code:train",
        "--pipeline=only_op=edited_code:only_op",
        "--pipeline=with_table=edited_code:with_table",
        "--pipeline=with_later=edited_code:with_later",
        "--pipeline=with_noise=edited_code:with_noise",
        workers=1,
        warm=True,
    )


@pytest.mark.as_a_user
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


@pytest.mark.parametrize(
    ("pipeline", "name"), [("with_table", "table.json"), ("with_later", "later.npy")]
)
def test_a_data_file_counts_as_code_does(edited, loader, pipeline, name):
    """A table that is read at import is part of the id; one that is read later is not."""
    code, daemon = edited
    with loader(daemon, pipeline, batch_size=1, prefetch=1) as old:
        batches = iter(old)
        first = next(batches)
        assert set(np.unique(first["image"])) == {11}
        write_data(code, 22)
        (template,) = children(daemon.pid)
        (worker,) = children(template)
        os.kill(worker, signal.SIGKILL)
        file = re.escape(str(code / name))
        with pytest.raises(BuildError, match=f"{file} was edited after this stream was opened"):
            list(batches)
    with loader(daemon, pipeline, batch_size=1) as new:
        second = next(iter(new))
        assert set(np.unique(second["image"])) == {22}
    assert (first.pipeline_id != second.pipeline_id) == (name == "table.json")


def test_a_table_that_differs_in_each_process_is_refused_by_name(edited, loader):
    _, daemon = edited
    said = r"noisy here is not the code .* It reads edited_code\.NOISE: these must be"
    with (
        pytest.raises(BuildError, match=said),
        loader(daemon, "with_noise", batch_size=1) as refused,
    ):
        next(iter(refused))


def test_an_op_of_another_version_is_refused_on_resume(edited, loader):
    code, daemon = edited
    with loader(daemon, "only_op", batch_size=1) as first:
        next(iter(first))
        cursor = first.state_dict()
    write(code, 22, version=2)
    with (
        loader(daemon, "only_op", batch_size=1) as second,
        pytest.raises(ResumeError, match=r"pipeline: was '[0-9a-f]{32}', is '[0-9a-f]{32}'"),
    ):
        second.load_state_dict(cursor)


def test_a_program_that_imported_other_values_is_refused(edited, loader, monkeypatch):
    """It sends a pipeline whose function reads a table; the daemon's is of the edited file."""
    code, daemon = edited
    monkeypatch.syspath_prepend(str(code))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    sent = importlib.import_module("edited_code").with_table
    try:
        with loader(daemon, sent, batch_size=1) as first:
            next(iter(first))
        write_data(code, 22)
        said = r"edited_code:folded here is not the code .* It reads edited_code\.TABLE"
        with pytest.raises(BuildError, match=said), loader(daemon, sent, batch_size=1) as second:
            next(iter(second))
    finally:
        for name in ("edited_code", "edited_parts"):
            sys.modules.pop(name)
