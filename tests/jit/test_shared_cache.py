"""What stands in for numba's cache object saves under the folder's lock, and survives faults."""

import fcntl
import logging
import os

import pytest

from stoker.jit.diskcache import SharedCache


class FakeCache:
    """Stands for numba's cache; says whether the folder's lock was held while it worked."""

    cache_path = "somewhere"

    def __init__(self, folder, fault=None):
        self.folder = folder
        self.fault = fault
        self.locked = []

    def _work(self):
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.locked.append(False)
        except BlockingIOError:
            self.locked.append(True)
        finally:
            os.close(descriptor)
        if self.fault is not None:
            raise self.fault

    def load_overload(self, signature, target):
        if self.fault is not None:
            raise self.fault
        return (signature, target)

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


def test_saving_holds_the_lock_and_gives_it_back(tmp_path):
    inner = FakeCache(tmp_path)
    cache = SharedCache(inner, tmp_path, dict)
    cache.save_overload("signature", "result")
    assert inner.locked == [True]
    assert lock_is_free(tmp_path)
    assert cache.load_overload("signature", "target") == ("signature", "target")
    assert cache.cache_path == "somewhere"


def test_a_full_disk_costs_the_entry_only(tmp_path, caplog):
    inner = FakeCache(tmp_path, OSError(28, "No space left on device"))
    SharedCache(inner, tmp_path, dict).save_overload("signature", "result")
    assert lock_is_free(tmp_path)
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
    assert inner.locked == [True]
    assert missing == [[True]]
    assert f"damaged kernel cache {tmp_path} is rebuilt" in caplog.text
    assert cache.load_overload("signature", "target") == ("signature", "target")
    assert len(missing) == 1


def test_other_faults_of_saving_are_not_hidden(tmp_path):
    inner = FakeCache(tmp_path, TypeError("cannot pickle"))
    with pytest.raises(TypeError, match="cannot pickle"):
        SharedCache(inner, tmp_path, dict).save_overload("signature", "result")
    assert lock_is_free(tmp_path)
