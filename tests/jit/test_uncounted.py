"""Kernels that count no references, and those that must: what they allocate is freed, once."""

import re
import sys

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from stoker.jit import compiled, compiling, diskcache, kernel, uncounted


@kernel
def tail(values, first):
    return values[first:]


@kernel
def halves(values):
    middle = len(values) // 2
    return tail(values, middle), values[:middle]


@kernel
def total(values):
    found = 0.0
    for value in values:
        found += value
    return found


@kernel
def reads(values, into):
    right, left = halves(tail(values, 1))
    into[0], into[1] = total(left), total(right)


@kernel
def allocates(values, into):
    copy = np.empty(len(values))
    for index in range(len(values)):
        copy[index] = 2.0 * values[index]
    right, left = halves(tail(copy, 1))
    copy = np.zeros(1)
    into[0], into[1] = total(left) + copy[0], total(right)


@kernel
def does_both(values, into):
    reads(values, into[:2])
    allocates(values, into[2:])


@kernel
def returns(values):
    return tail(values, 2)


@kernel
def keeps(values):
    kept = [values[1:], values[2:]]
    kept[0] = tail(values, 3)
    return len(kept[0]) + len(kept[1])


@pytest.fixture(scope="module", autouse=True)
def fresh(tmp_path_factory):
    """Compile the kernels of this page here, not in the session's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diskcache, "_chosen", [tmp_path_factory.mktemp("kernels")])
        yield


@pytest.fixture
def unfreed():
    """Count arrays of numba that were made and not freed since the test began."""
    _nrt_python.memsys_enable_stats()
    begin = rtsys.get_allocation_stats()

    def count() -> int:
        now = rtsys.get_allocation_stats()
        return (now.mi_alloc - begin.mi_alloc) - (now.mi_free - begin.mi_free)

    yield count
    _nrt_python.memsys_disable_stats()


VALUES = np.arange(11.0)
SUMS = [VALUES[1:6].sum(), VALUES[6:].sum()]


def library_of(fn, forms=None):
    """The code of a kernel's only form."""
    (form,) = (compiled(fn) if forms is None else forms[fn]).overloads.values()
    return form.library


@pytest.mark.parametrize("times", [1, 300])
def test_what_is_allocated_is_freed_and_what_is_passed_is_kept(unfreed, times):
    """Both kernels call the same functions, which count in one of them and not in the other."""
    values, into = VALUES.copy(), np.empty(4)
    held = sys.getrefcount(values), sys.getrefcount(into)
    for _ in range(times):
        into[:] = 0
        compiled(does_both)(values, into)
        assert into.tolist() == [*SUMS, *(2 * value for value in SUMS)]
    assert (sys.getrefcount(values), sys.getrefcount(into)) == held
    assert unfreed() == 0


def instructions(fn) -> list[str]:
    """Machine code of a kernel that is compiled now, without the names of what it uses."""
    form = compiling._made(fn, (), {})
    form._cache = diskcache.SharedCache(None, None, lambda: None)
    form.compile((numba.float64[::1], numba.float64[::1]))
    (made,) = form.overloads.values()
    lines = [line.split("#")[0].strip() for line in made.library.get_asm_str().splitlines()]
    return [re.sub(r"[.\w]*[_L]\w[.\w]*", "", line) for line in lines if line[:1].islower()]


def test_without_counts_the_passes_that_help_to_find_them_change_nothing(monkeypatch):
    code = instructions(reads)
    assert len(code) > 20
    monkeypatch.setattr(uncounted.Uncounted, "_optimize", uncounted.library._optimize_final_module)
    assert code == instructions(reads)


def test_a_kernel_that_only_reads_and_writes_counts_nothing(unfreed):
    into = np.empty(2)
    compiled(reads)(VALUES, into)
    assert into.tolist() == SUMS
    library = library_of(reads)
    assert library.is_dropped
    made = [one for one in library._final_module.functions if not one.is_declaration]
    wrappers = [one for one in made if one.name.startswith(uncounted.WRAPPER)]
    assert any("NRT_decref" in str(one) for one in wrappers)  # they hold the arrays
    bodies = [str(one) for one in made if one not in wrappers and "reads" in one.name]
    assert bodies
    assert not any("NRT_" in body or uncounted.STAND_IN in body for body in bodies)
    assert unfreed() == 0


def test_what_allocates_counts(unfreed):
    into = np.empty(2)
    compiled(allocates)(VALUES, into)
    assert into.tolist() == [2 * value for value in SUMS]
    assert not library_of(allocates).is_dropped
    assert library_of(total, compiling._callee_forms).is_dropped  # and so does not its callee
    assert unfreed() == 0


def test_what_returns_an_array_counts(unfreed):
    values = VALUES.copy()
    held = sys.getrefcount(values)
    found = compiled(returns)(values)
    assert np.shares_memory(found, values)
    assert not library_of(returns).is_dropped
    del values
    assert found.tolist() == VALUES[2:].tolist()  # it keeps the memory
    found = compiled(returns)(again := VALUES.copy())
    del found
    assert sys.getrefcount(again) == held
    assert unfreed() == 0


def test_what_could_store_an_array_counts(unfreed):
    values = VALUES.copy()
    held = sys.getrefcount(values)
    assert compiled(keeps)(values) == 8 + 9
    assert not library_of(keeps).is_dropped
    assert sys.getrefcount(values) == held
    assert unfreed() == 0


KERNELS = """
import numpy as np
from stoker.jit import kernel
@kernel
def tail(values, first):
    return values[first:]
@kernel
def reads(values):
    return tail(values, 1)[0]
@kernel
def allocates(values):
    copy = np.zeros(len(values)) + values
    last = tail(copy, 2)
    copy = np.zeros(3)
    return last[0] + copy[0] + reads(values)
"""
USED = """
import sys
sys.path.insert(0, sys.argv[1])
import numba, numpy as np
from kernels_of_test import allocates, reads, tail
from numba.core.runtime import _nrt_python, rtsys
from stoker.jit import compiled
_nrt_python.memsys_enable_stats()
low, high, view = compiled(reads), compiled(allocates), compiled(tail)
@numba.njit
def foreign(values):
    copy = values + 1
    found = view(copy, 1)
    copy = np.zeros(2)
    return low(values) + high(found) + copy[0]
values = np.arange(4.0)
print(low(values), high(values), foreign(values), sys.getrefcount(values))
stats = rtsys.get_allocation_stats()
print(stats.mi_alloc - stats.mi_free)
"""


@pytest.mark.slow
def test_stored_code_and_what_numba_compiles_around_it_are_as_right(python, tmp_path):
    (tmp_path / "kernels_of_test.py").write_text(KERNELS)
    first = python(USED, str(tmp_path), warm=True)
    assert first.split() == ["1.0", "3.0", "8.0", "2", "0"]
    assert python(USED, str(tmp_path), warm=True) == first
