"""Indexes of sources read in place: another user cannot direct them onto other files."""

import os
import shutil
import subprocess
import sys

import pytest
from commands import call
from files import contents
from users import ATTACKER, VICTIM, as_user, shared_folder, why_none

from stoker.dataset import open_dataset
from stoker.dataset.packing import in_place
from stoker.dataset.packing.in_place import index_folder
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.errors import ResourceError, UsageError


@pytest.fixture
def tars(tmp_path, write_tar):
    root = tmp_path / "shards"
    root.mkdir()
    members = [(f"{n:04d}.{part}", b"%d" % n) for n in range(4) for part in ("cls", "txt")]
    write_tar(root / "0.tar", members)
    return root


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setattr(in_place, "cache_root", lambda: tmp_path / "caches")


def refused(source) -> str:
    """What `stoker index` says, which is what a daemon says of the source."""
    code, _, error = call("index", source, "--workers=1", COLUMNS="9999")
    assert code in (1, 2, 75)
    return error


def test_a_folder_that_is_not_an_index_is_left_alone(tars, tmp_path):
    pack(tars, index_folder(tars), Options(workers=1))
    before = contents(index_folder(tars))
    assert "expected an index or nothing, got manifest.json of" in refused(tars)
    assert contents(index_folder(tars)) == before
    shutil.rmtree(index_folder(tars))
    index_folder(tars).mkdir()
    (index_folder(tars) / "letter.txt").write_text("dear")
    assert "expected an index or nothing, got letter.txt; move" in refused(tars)
    assert (index_folder(tars) / "letter.txt").read_text() == "dear"


def test_what_a_killed_process_left_is_no_obstacle(tars):
    folder = index_folder(tars)
    (folder / ".packing").mkdir(parents=True)
    (folder / ".manifest.json.123").touch()
    (folder / "00000-01234567.arrow").touch()
    with open_dataset(tars) as dataset:
        assert len(dataset) == 4


def test_the_lock_is_not_a_link(tars, tmp_path):
    index_folder(tars).parent.mkdir(parents=True)
    (tmp_path / "caches").chmod(0o700)
    index_folder(tars).with_suffix(".lock").symlink_to(tmp_path / "made")
    with pytest.raises(ResourceError, match=r"cannot write an index to .*Too many levels of symb"):
        open_dataset(tars)
    assert not (tmp_path / "made").exists()


def test_a_work_folder_that_is_a_link_is_refused(tars, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "letter.txt").write_text("dear")
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / ".packing").symlink_to(tmp_path / "precious")
    with pytest.raises(UsageError, match=r"cannot write to .*packed: .packing is a symbolic link"):
        pack(tars, tmp_path / "packed", Options(workers=1))
    assert (tmp_path / "precious" / "letter.txt").read_text() == "dear"


@pytest.mark.as_a_user
@pytest.mark.skipif(bool(why_none()), reason=why_none() or "two users")
@pytest.mark.parametrize("what", ["folder", "lock"])
def test_verify_leaves_a_packed_dataset_alone(tars, tmp_path, what):
    """Without a home, the attacker makes the folder in /tmp first, with a link to the dataset."""
    with shared_folder() as base:
        shards, packed = base / "shards", base / "packed"
        shutil.copytree(tars, shards)
        pack(tars, packed, Options(workers=1))
        for path in (base / "packed", *packed.iterdir()):
            os.chown(path, VICTIM, VICTIM)
        before = contents(packed)
        taken = base / "tmp" / f"stoker-kernels-{VICTIM}"
        index = taken / "indexes" / index_folder(shards).name
        made = base / "packed" / "made"
        link, target = (index, packed) if what == "folder" else (f"{index}.lock", made)
        script = f"mkdir -p {index.parent}; ln -s {target} {link}; chmod -R 777 {taken}"
        subprocess.run([*as_user(ATTACKER), "sh", "-c", script], check=False)
        assert os.path.islink(link)
        done = subprocess.run(
            [*as_user(VICTIM), sys.executable, "-m", "stoker.server", "verify", shards,
             "--workers=1"],
            env={"PATH": os.environ["PATH"], "HOME": "/none", "TMPDIR": str(base / "tmp"),
                 "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, timeout=120, check=False, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert contents(packed) == before
        (used,) = (base / "tmp").glob(f"stoker-kernels-{VICTIM}-*")
        assert (used / "indexes" / index.name / "manifest.json").exists()
        assert f"got owner {ATTACKER}" in done.stderr
        assert f"{used} is used now" in done.stderr
