"""A file that is edited after it was imported: functions are not rewritten from the new text."""

import importlib
import itertools
import re
import sys

import numpy as np
import pytest

from stoker.compat.ffcv.rewriting import rewrite
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError

numbers = itertools.count()
SOURCE = """
import numpy as np
from stoker import ops


def other(sample):
    return {"image": sample.image}


def chosen(sample):
    image = sample.image
    if sample.label > 3:
        image = ops.invert(image, p=1.0)
    return {"image": image}
"""
OPERATION = """
import numpy as np


def noisy(images, dst):
    dst[:] = images + np.random.randint(0, 9)
    return dst
"""
IMAGE = np.full((4, 4, 3), 10, np.uint8)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a module and import it; return it and its file."""
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"edited_{next(numbers)}"
    file = tmp_path / f"{name}.py"
    file.write_text(SOURCE + OPERATION)
    importlib.invalidate_caches()
    yield importlib.import_module(name), file
    del sys.modules[name]


def level(module) -> int:
    row = pipeline(module.chosen)({"image": IMAGE, "label": 5})
    return int(row["image"][0, 0, 0])


def test_a_file_as_it_was_imported_is_read(written):
    assert level(written[0]) == 245


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("label > 3", "label > 7"),  # the function itself
        ("import numpy as np\n", "import numpy as np\nimport os\n"),  # its place
        ("ops.invert(image, p=1.0)", "ops.invert(image, p="),  # half an edit
    ],
)
def test_an_edited_file_is_an_error_that_says_what_to_do(written, old, new):
    module, file = written
    file.write_text((SOURCE + OPERATION).replace(old, new, 1))
    line = module.chosen.__code__.co_firstlineno
    text = f"{file}:{line}: the file was edited after this process imported chosen from it"
    with pytest.raises(BuildError, match=re.escape(text) + ".*restart the process") as caught:
        level(module)
    assert (caught.value.details["file"], caught.value.details["line"]) == (str(file), line)


def test_an_edit_below_the_function_changes_nothing(written):
    module, file = written
    file.write_text(SOURCE + OPERATION + "\n\ndef later(sample):\n    return {}\n")
    assert level(module) == 245


def test_operations_of_ffcv_are_read_in_the_same_way(written):
    module, file = written
    assert rewrite(module.noisy, "Noisy").draws
    file.write_text((SOURCE + OPERATION).replace("randint(0, 9)", "randint(0, 90)"))
    with pytest.raises(BuildError, match="after this process imported noisy from it"):
        rewrite(module.noisy, "Noisy")
