"""A Loader with the path of a dataset: how it starts a daemon, and what memory it reserves."""

from pathlib import Path

import numpy as np
import pytest
from commands import pack_folder
from PIL import Image

from stoker import ops
from stoker.client import Loader
from stoker.pipeline import pipeline

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_private_daemons")]

TORCH_LATE = """
import sys
import time
from pathlib import Path

def command_line(process):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:  # an execve that has begun shows an empty line for a moment
        if line := Path(f"/proc/{process}/cmdline").read_text():
            return line
    return "none"

class Importing:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            children = Path("/proc/thread-self/children").read_text().split()
            print(["stoker.server" in command_line(child) for child in children])

sys.meta_path.insert(0, Importing())

from stoker.client import Loader
from stoker.pipeline import pipeline

with Loader(sys.argv[1], pipeline=pipeline(lambda sample: {"label": sample.label}), batch_size=2,
            workers=1) as loader:
    print(type(next(iter(loader)).label).__module__)
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("starting")
    for label in ("cat", "dog"):
        (root / "source" / label).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(root / "source" / label / "1.jpg")
    return pack_folder(root / "source", root / "packed")


@pytest.mark.as_a_user
def test_torch_is_imported_while_the_private_daemon_starts(
    python, packed: Path, kernel_cache: Path
) -> None:
    said = python(TORCH_LATE, str(packed), cache=kernel_cache.parents[1])
    assert said.splitlines() == ["[True]", "torch"]


@pytest.mark.parametrize(("views", "prefetch", "slots"), [(128, 2, 5), (16, 16, 27)])
def test_large_batches_of_many_rows_are_few(packed: Path, views, prefetch, slots) -> None:
    """256 rows keep one worker busy; batches of few bytes cost little, however many rows."""
    train = pipeline(lambda sample: {"image": ops.resize(sample.image, size=(256, 256))})
    options = {"device": "numpy", "workers": 1, "batch_size": 2, "views": views}
    with Loader(str(packed), pipeline=train, **options) as loader:
        next(iter(loader))
        assert loader.prefetch == prefetch
        assert loader.statistics().slots == slots
