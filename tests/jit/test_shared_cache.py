"""What stands in for numba's cache object: who compiles holds the folder's lock; faults pass."""

import fcntl
import logging
import os

import pytest

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


def test_a_full_disk_costs_the_entry_only(tmp_path, caplog):
    inner = FakeCache(tmp_path, OSError(28, "No space left on device"))
    SharedCache(inner, tmp_path, dict).save_overload("signature", "result")
    assert caplog.record_tuples == [
        (
            "stoker.jit.diskcache",
            logging.WARNING,
            f"kernel cache {tmp_path} was not written: [Errno 28] No space left on device",
        )
    ]


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
