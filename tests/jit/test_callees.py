"""A kernel that other kernels call is kept as bitcode, which its callers copy."""

import numpy as np
import pytest

from stoker.jit import compiled, compiling, diskcache, kernel


@kernel
def shifted(x, by):
    return x + by


@kernel
def summed(values):
    total = 0
    for value in values:
        total = shifted(total, value)
    return total


@kernel
def repeated(value, times):
    for _ in range(times):
        value += 1
    return value


@kernel
def reduced(value, by):
    while value >= by:
        value -= by
    return value


@kernel
def caller(values):
    total = shifted(shifted(summed(values), 1), 2) + shifted(summed(values), True)
    total += reduced(len(values), 2) + reduced(len(values), 4)
    return repeated(repeated(repeated(total, 2), 3), len(values)) - len(values) - 5


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """The forms that callers have after compiling; stored code has no forms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diskcache, "_chosen", [tmp_path_factory.mktemp("kernels")])
        assert compiled(caller)(np.arange(4)) == 16
    return {fn.__name__: form for fn, form in compiling._callee_forms.items()}


def test_a_callee_is_compiled_once_for_all_constants_of_a_type(forms):
    types = {str(given) for given in forms["shifted"].overloads}
    assert types == {"(int64, int64)", "(int64, bool)"}


def test_so_is_one_with_a_while_loop(forms):
    assert [str(given) for given in forms["reduced"].overloads] == ["(int64, int64)"]


def test_a_for_loop_is_compiled_for_each_constant(forms):
    types = {str(given).partition(", ")[2] for given in forms["repeated"].overloads}
    assert types == {"Literal[int](2))", "Literal[int](3))", "int64)"}


def test_a_callee_has_no_machine_code(forms):
    for name in ("shifted", "summed"):
        (form, *_) = forms[name].overloads.values()
        assert form.library.get_pointer_to_function(form.fndesc.mangled_name) == 0
        with pytest.raises(TypeError, match="_inside has no machine code: call compiled"):
            forms[name](1, 2)


def test_a_callee_can_be_compiled_for_python_too(forms):
    assert compiled(shifted)(1, 2) == 3
    assert compiled(shifted) is not forms["shifted"]
    assert compiled(summed)(np.arange(5)) == 10


def test_only_callees_with_loops_are_optimized_apart(forms):
    loops = {
        name: {one.library.has_loops for one in form.overloads.values()}
        for name, form in forms.items()
        if name in ("shifted", "summed")
    }
    assert loops == {"shifted": {False}, "summed": {True}}


PACKAGE = """
from stoker.jit import kernel
@kernel
def inner(x):
    return x + 1
@kernel
def outer(x):
    return inner(x) * 2
"""
USED = """
import sys
sys.path.insert(0, sys.argv[1])
import numba
from kernels_of_test import inner, outer
from stoker.jit import compiled
fast = compiled(outer)
@numba.njit
def foreign(x):
    return fast(x) + 1
print(fast(3), foreign(3), *fast.stats.cache_hits.values())
compiled(inner).compile("(int8,)")
print(compiled(inner)(2.5), [*compiled(outer).overloads][0])
"""


@pytest.mark.slow
def test_stored_code_can_be_copied_by_what_numba_compiles(python, tmp_path):
    """Code from the cache is run, and copied into other functions, as fresh code is."""
    (tmp_path / "kernels_of_test.py").write_text(PACKAGE)
    fresh = python(USED, str(tmp_path), warm=True)
    assert fresh.split() == ["8", "9", "3.5", "(int64,)"]
    assert python(USED, str(tmp_path), warm=True).split() == ["8", "9", "1", "3.5", "(int64,)"]


@pytest.mark.slow
def test_stored_callees_are_copied_into_new_code(python, tmp_path):
    (tmp_path / "kernels_of_test.py").write_text(PACKAGE)
    script = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from kernels_of_test import inner, outer
        from stoker.jit import compiled, compiling
        compiled(outer)(3)
        for file in compiled(outer)._cache._folder.glob("*/*.nb?"):
            file.unlink()
        print(*compiling._callee_forms[inner].stats.cache_hits.values())
    """
    assert python(script, str(tmp_path), warm=True) == ""
    assert python(script, str(tmp_path), warm=True) == "1"
