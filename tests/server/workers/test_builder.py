"""A build whose result is known already: it is the answer again only if nothing has changed."""

import importlib
import os
import shutil
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from asking import to_build
from user_folders import importing_from

from stoker.dataset import schema, write
from stoker.server.work.work_records import BuildResult
from stoker.server.workers import builder
from stoker.server.workers.user_code import UserCode

FILES = {
    "known_pipeline": """
import json
from pathlib import Path

import known_part
from stoker import ops
from stoker.pipeline import pipeline

SIZE = json.loads(Path(__file__).with_name("size.json").read_text())

@pipeline
def train(sample):
    return {"image": ops.center_crop(sample.image, size=SIZE)}
""",
    "known_part": "LEVEL = 1\n",
}


LIVE = """
import numpy as np
from stoker.dataset import schema

class Three:
    fields = [schema.bounded(schema.image(encoding="raw"), 8, 8, fixed=True)]
    fingerprint = "the same in all versions"

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return {"image": np.zeros((8, 8, 3), np.uint8)}
"""


@pytest.fixture
def code(tmp_path: Path):
    """The folder of the files, and of the dataset."""
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "size.json").write_text("4")
    write_dataset(tmp_path, 3)
    with importing_from(tmp_path):
        yield tmp_path
        forget()


def write_dataset(folder: Path, rows: int) -> None:
    """Write, or replace, a dataset of `rows` images of noise."""
    draw = np.random.default_rng(rows)
    shutil.rmtree(folder / "data", ignore_errors=True)
    pixels = draw.integers(0, 256, (rows, 8, 8, 3), np.uint8)
    write(folder / "data", [schema.image(encoding="raw")], [{"image": one} for one in pixels])


def forget() -> None:
    for name in (*FILES, "known_source"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def built(folder: Path, known: BuildResult | None = None, data: str = "") -> BuildResult:
    """Build as a new process would, which has imported nothing of the folder."""
    forget()
    own = UserCode()
    data = data or str(folder / "data")
    request = msgspec.structs.replace(to_build(1, data, "known_pipeline:train"), known=known)
    found = builder.build(request, own)
    return found if found is known else msgspec.structs.replace(found, code=own.note())


def edit(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (len(text), len(text)))  # as an editor does; Python looks at whole seconds


@pytest.mark.slow
def test_a_known_result_is_the_answer_until_something_changes(code):
    first = built(code)
    names = {Path(path).name for path, _ in first.code}
    assert names == {"size.json", *(f"{name}.py" for name in FILES)}
    assert built(code, first) is first

    edit(code / "known_part.py", "LEVEL = 22\n")
    second = built(code, first)
    assert second is not first
    assert second.code != first.code
    assert built(code, second) is second

    edit(code / "size.json", " 6")
    third = built(code, second)
    assert third.outputs[0].shape == (6, 6, 3)
    assert built(code, third) is third

    write_dataset(code, 5)
    fourth = built(code, third)
    assert fourth.rows == 5
    assert built(code, fourth) is fourth

    gone = msgspec.structs.replace(fourth, code=(*fourth.code, ("/no/such.py", "ab" * 16)))
    assert built(code, gone) is not gone, "a file that the build imported later is not there now"


@pytest.mark.slow
def test_live_data_may_change_under_the_same_fingerprint(code):
    (code / "known_source.py").write_text(LIVE)
    first = built(code, data="known_source:Three")
    assert first.fingerprint.startswith("declared:")
    assert built(code, first, data="known_source:Three") is not first
