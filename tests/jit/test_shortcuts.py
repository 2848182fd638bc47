"""Replacements for functions of numba: they change no code except views, and are put back."""

import contextlib
import gc
import operator
import re

import numba
import pytest
from numba.core import types
from numba.core.registry import cpu_target

from stoker.jit import compiled, compiling, diskcache, dispatchers, kernel, shortcuts


@kernel
def halves(value):
    total = 0.0
    while value > 1:
        value //= 2
        total += value * 0.5 if value % 2 else abs(value - 1)
    return total


@kernel
def summed(values, rows):
    total = values[0, 0] + 0.0
    for row in range(rows):
        for column in range(values.shape[1]):
            if values[row, column] > 3:
                total = max(total, halves(values[row, column]))
    return total, rows + 1


def numbas_functions():
    return [getattr(owner, name) for owner, name, _ in shortcuts._REPLACEMENTS]


def code_of_callees(monkeypatch, tmp_path):
    """Compile `summed` from nothing; return the code of what it calls and its own."""
    with monkeypatch.context() as patch:
        patch.setattr(diskcache, "_chosen", [tmp_path])
        patch.setattr(compiling, "_done", {})
        patch.setattr(compiling, "_callee_forms", {})
        fast = compiled(summed)
        fast.compile("(int32[:, ::1], int64)")
        forms = [fast, *compiling._callee_forms.values()]
    texts = [str(one.library._final_module) for form in forms for one in form.overloads.values()]
    return [re.sub(r"B\d+|\$\d+|v\d+|globals\.\w+|i64 \d{9,}", "", text) for text in texts]


def test_the_code_is_the_same(monkeypatch, tmp_path):
    short = code_of_callees(monkeypatch, tmp_path / "short")
    monkeypatch.setattr(dispatchers, "shortcuts", contextlib.nullcontext)
    assert code_of_callees(monkeypatch, tmp_path / "long") == short
    assert len(short) == 2


def test_what_numba_had_is_put_back():
    before = numbas_functions()
    with shortcuts.shortcuts():
        inside = numbas_functions()
        with shortcuts.shortcuts():
            assert numbas_functions() == inside
        assert numbas_functions() == inside
    assert numbas_functions() == before
    assert inside == [replacement for *_, replacement in shortcuts._REPLACEMENTS]


def test_what_numba_had_is_put_back_after_an_error():
    before = numbas_functions()
    with pytest.raises(numba.TypingError):
        compiled(halves).compile((types.unicode_type,))
    assert numbas_functions() == before


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_rests_meanwhile(enabled):
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with shortcuts.shortcuts():
            with shortcuts.shortcuts():
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("function", [operator.add, operator.floordiv, operator.lt, abs])
@pytest.mark.parametrize("given", [types.int64, types.uint8, types.float32, types.literal(3)])
def test_signatures_are_numbas(function, given):
    cpu_target.target_context.refresh()
    context = cpu_target.typing_context
    kind = context.resolve_value_type(function)
    args = (given,) if function is abs else (given, types.int64)
    with shortcuts.shortcuts():
        found = [kind.get_call_type(context, args, {}) for _ in range(2)]
    assert found == 2 * [kind.get_call_type(context, args, {})]


def test_overloads_are_resolved_for_each_caller():
    """Numba compiles them with the options of the caller, such as how it divides."""

    def twice(value):
        return None

    @numba.extending.overload(twice)
    def overload_of_twice(value):
        return lambda value: 2 * value

    cpu_target.target_context.refresh()
    context = cpu_target.typing_context
    kind = context.resolve_value_type(twice)
    with shortcuts.shortcuts():
        assert kind.get_call_type(context, (types.int64,), {}).return_type == types.int64
    assert not [key for key in shortcuts._signatures if key[1] == kind]
