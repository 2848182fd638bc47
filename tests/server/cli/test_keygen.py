"""`stoker keygen` writes keys that CURVE takes, and overwrites none."""

import subprocess
import sys

import pytest
import zmq
from commands import call
from zmq.utils import z85

from stoker.protocol.remote.keys import public_key_of, read_clients, read_secret_file


def keygen(*args: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.CompletedProcess(args, *call("keygen", *args))


def test_a_pair_of_files(tmp_path) -> None:
    path = tmp_path / "new" / "alice.key"
    command = [sys.executable, "-m", "stoker.server", "keygen", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    secret = read_secret_file(path, "key")
    public = public_key_of(f"{path}.pub", "key")
    assert zmq.curve_public(z85.encode(secret)) == z85.encode(public)
    assert read_clients(f"{path}.pub", "clients") == {public: "alice"}
    assert f"public key: {path}.pub" in done.stdout
    assert path.read_text().splitlines()[1] not in done.stdout


def test_keys_are_not_replaced(tmp_path) -> None:
    path = tmp_path / "a.key"
    assert keygen(path).returncode == 0
    before = path.read_text()
    again = keygen(path)
    assert again.returncode == 2
    assert "a key that is replaced cannot be made again" in again.stderr
    (tmp_path / "a.key.pub").unlink()
    assert keygen(path).returncode == 2
    assert path.read_text() == before
    assert not (tmp_path / "a.key.pub").exists()


@pytest.mark.parametrize("name", ["two words", "", "a#b", "a\nb"])
def test_names_are_one_word(tmp_path, name) -> None:
    done = keygen(tmp_path / "a.key", "--name", name)
    assert done.returncode == 2
    assert "expected one word without '#'" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(tmp_path) -> None:
    (tmp_path / "file").touch()
    done = keygen(tmp_path / "file" / "a.key")
    assert done.returncode == 2
    assert done.stderr.startswith("stoker: ")
    assert "Traceback" not in done.stderr
