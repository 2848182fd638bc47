"""The replacement of numba's cache object: who compiles holds the folder's lock; faults pass."""

import fcntl
import logging
import os
import subprocess
import sys

import pytest

from stoker.jit import activity, cache_root, diskcache
from stoker.jit.diskcache import SharedCache


class FakeCache:
    """Stands for numba's cache; says whether the folder's lock was held while it worked."""

    cache_path = "somewhere"

    def __init__(self, folder, fault=None, found=None):
        self.folder = folder
        self.fault = fault
        self.found = list(found or [])
        self.locked = []

    def _work(self):
        self.locked.append(not lock_is_free(self.folder))
        if self.fault is not None:
            raise self.fault

    def load_overload(self, signature, target):
        self._work()
        return self.found.pop(0) if self.found else None

    def save_overload(self, signature, result):
        self._work()

    def flush(self):
        self.fault = None
        self._work()


def lock_is_free(folder):
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_the_lock_is_held_from_a_miss_to_the_end(tmp_path):
    inner = FakeCache(tmp_path)
    missing = []
    cache = SharedCache(inner, tmp_path, lambda: missing.append(list(inner.locked)))
    assert cache.load_overload("signature", "target") is None
    assert missing == [[False, True]]
    assert not lock_is_free(tmp_path)
    cache.save_overload("signature", "result")
    assert inner.locked == [False, True, True]
    cache.release()
    assert lock_is_free(tmp_path)
    cache.release()
    assert cache.cache_path == "somewhere"


def test_what_is_stored_is_loaded_without_the_lock(tmp_path):
    inner = FakeCache(tmp_path, found=["code"])
    cache = SharedCache(inner, tmp_path, lambda: pytest.fail("nothing is missing"))
    assert cache.load_overload("signature", "target") == "code"
    assert inner.locked == [False]


def test_what_another_process_stored_meanwhile_is_found(tmp_path):
    inner = FakeCache(tmp_path, found=[None, "code"])
    cache = SharedCache(inner, tmp_path, lambda: pytest.fail("nothing is missing"))
    assert cache.load_overload("signature", "target") == "code"
    cache.release()
    assert lock_is_free(tmp_path)


def test_without_a_lock_file_compiling_goes_on(tmp_path):
    folder = tmp_path / "folder"
    (folder / "lock").mkdir(parents=True)
    inner = FakeCache(tmp_path)
    cache = SharedCache(inner, folder, dict)
    assert cache.load_overload("signature", "target") is None
    cache.save_overload("signature", "result")
    cache.release()
    assert len(inner.locked) == 3


@pytest.fixture
def unstored(monkeypatch):
    """Why kernels of this process were not stored; nothing at the start."""
    reasons: list[str] = []
    monkeypatch.setattr(activity, "_unstored", reasons)
    return reasons


def test_a_full_disk_costs_the_entry_only_and_is_one_line(tmp_path, caplog, unstored):
    inner = FakeCache(tmp_path, OSError(28, "No space left on device"))
    for _ in range(2):
        SharedCache(inner, tmp_path, dict).save_overload("signature", "result")
    reason = f"kernel cache {cache_root()}: No space left on device"
    assert unstored == [reason]
    assert caplog.record_tuples == [
        (
            "stoker.jit.diskcache",
            logging.WARNING,
            f"{reason}: kernels are compiled and not stored",
        )
    ]


def test_without_a_folder_code_is_compiled_and_not_stored(unstored):
    missing = []
    cache = SharedCache(None, None, lambda: missing.append(True))
    assert cache.load_overload("signature", "target") is None
    cache.save_overload("signature", "result")
    cache.release()
    assert cache.signatures(None) == []
    assert missing == [True]


HOLDER = """
import fcntl, os, signal, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_stopped_process_with_the_lock_makes_others_wait_for_a_bounded_time(
    tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(diskcache, "LOCK_S", 0.3)
    inner = FakeCache(tmp_path)
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        cache = SharedCache(inner, tmp_path, dict)
        assert cache.load_overload("signature", "target") is None
        cache.save_overload("signature", "result")
        cache.release()
        assert len(inner.locked) == 2, "loaded twice, and not saved"
        holder.kill()
    assert [record.message for record in caplog.records] == [
        f"{tmp_path} is locked for 0.3 s: compiled and not stored"
    ]
    assert cache.load_overload("signature", "target") is None
    cache.save_overload("signature", "result")
    cache.release()
    assert len(inner.locked) == 5


def test_a_damaged_entry_counts_as_absent_and_is_emptied_under_the_lock(tmp_path, caplog):
    inner = FakeCache(tmp_path, EOFError("Ran out of input"))
    missing = []
    cache = SharedCache(inner, tmp_path, lambda: missing.append(list(inner.locked)))
    assert cache.load_overload("signature", "target") is None
    assert missing == [[False, True, True]]
    assert [record.message for record in caplog.records] == [
        f"damaged kernel cache {tmp_path} is rebuilt: EOFError('Ran out of input')"
    ]
    cache.release()
    inner.found = ["code"]
    assert cache.load_overload("signature", "target") == "code"
    assert len(missing) == 1


def test_other_faults_of_saving_are_not_hidden(tmp_path):
    inner = FakeCache(tmp_path, TypeError("cannot pickle"))
    with pytest.raises(TypeError, match="cannot pickle"):
        SharedCache(inner, tmp_path, dict).save_overload("signature", "result")
