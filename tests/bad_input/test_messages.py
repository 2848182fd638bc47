"""Messages that once misled, or were a library's: they name the cause, and their remedy works."""

import io
import shlex
import subprocess
import sys
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from stoker import ops
from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.pipeline import pipeline
from stoker.protocol.errors import DatasetError

pytestmark = pytest.mark.usefixtures("forked_private_daemons")

SCRIPT = """
import sys
from stoker.client import Loader
from stoker.protocol.errors import StokerError

try:
    with Loader(sys.argv[1], pipeline="train", batch_size=1, device="numpy", workers=1) as loader:
        print("delivered", len(list(loader)))
except StokerError as error:
    print(error)
"""


@pipeline
def small(sample):
    return {"image": ops.resize(sample.image, size=(8, 8))}


def tar_of(path, members):
    with tarfile.open(path, "w") as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture(scope="module")
def png():
    buffer = io.BytesIO()
    Image.new("RGB", (9, 8)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.slow
def test_a_tar_with_a_bad_member_names_the_command_that_leaves_it_out(stoker, png, tmp_path):
    source = tar_of(tmp_path / "bad.tar", {"a.png": png, "b.png": b"<html>", "c.png": png})
    options = {"pipeline": small, "batch_size": 1, "device": "numpy", "workers": 1}
    with pytest.raises(DatasetError, match=r"run `(stoker index .* --skip-bad)` once") as caught:
        Loader(str(source), **options)
    command = str(caught.value).partition("`")[2].partition("`")[0]
    assert stoker(*shlex.split(command)[1:]).code == 0
    with Loader(str(source), **options) as loader:
        assert len(list(loader)) == 2


def test_dots_in_the_keys_of_a_tar(stoker, png, tmp_path):
    members = {"v1.0.png": png, "v1.0.cls": b"0", "v2.0.png": png, "v2.0.cls": b"1"}
    done = stoker("pack", tar_of(tmp_path / "dots.tar", members), tmp_path / "out")
    assert done.code == 2
    assert "the key of a sample ends at the first dot" in " ".join(done.err.split())
    assert "=ignore" not in done.err.partition("else leave")[0]


def test_a_column_of_lists_of_lists(stoker, png, tmp_path):
    (tmp_path / "0.png").write_bytes(png)
    boxes = pa.array([[[1.0, 2.0, 3.0, 4.0]]], pa.list_(pa.list_(pa.float64())))
    pq.write_table(pa.table({"image": ["0.png"], "boxes": boxes}), tmp_path / "t.parquet")
    done = stoker("pack", tmp_path / "t.parquet", tmp_path / "out", "--kind", "table")
    assert done.code == 2
    assert "column 'boxes' holds lists of lists" in done.err
    remedy = ("--field", "boxes=float64[?,4]")
    done = stoker("pack", tmp_path / "t.parquet", tmp_path / "out", "--kind", "table", *remedy)
    assert done.code == 0, done.err


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "d"
    images = [{"image": np.zeros((8, 8, 3), np.uint8)}] * 4
    write(path, [schema.image(encoding="raw")], images)
    return path


@pytest.mark.slow
def test_a_working_folder_that_was_removed(dataset, tmp_path):
    """A training goes on where its paths are absolute; a command says what is wrong."""
    text = "from stoker import ops\nfrom stoker.pipeline import pipeline\n@pipeline\ndef small(s):"
    text += "\n    return {'image': ops.resize(s.image, size=(8, 8))}\n"
    (tmp_path / "script.py").write_text(text + SCRIPT.replace('"train"', "small"))
    for command, said in [
        (f"{tmp_path}/script.py {dataset}", "delivered 4"),
        (f"-m stoker.server ls {dataset}", "the working folder was removed"),
    ]:
        (tmp_path / "gone").mkdir()
        gone = f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec {sys.executable} {command}"
        done = subprocess.run(gone, shell=True, capture_output=True, text=True, check=False)
        assert said in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_numba_without_its_compiler_is_named(python):
    script = """
        import numpy as np
        from stoker import ops
        from stoker.pipeline import pipeline
        from stoker.protocol.errors import BuildError

        @pipeline
        def small(sample):
            return {"image": ops.horizontal_flip(sample.image)}

        try:
            small({"image": np.zeros((8, 8, 3), np.uint8)}, seed=1, id=2, compiled=True)
        except BuildError as error:
            print(str(error).partition(",")[0])
    """
    assert python(script, NUMBA_DISABLE_JIT="1") == "NUMBA_DISABLE_JIT is set"
