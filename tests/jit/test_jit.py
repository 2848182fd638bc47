"""From plain to machine code: what is marked, what is refused, how it is compiled."""

import importlib.util
import math
import stat
import threading

import numpy as np
import pytest

from stoker.jit import cache_root, compiled, compiling, direct, diskcache, kernel, set_cache_root
from stoker.jit.kernels import mark_of
from stoker.protocol.errors import BuildError, ResourceError
from stoker.rng.draws import uniform
from stoker.rng.streams import machine_key, make_key

OFFSET = 3
TABLE = np.array([10, 20, 30])


@kernel
def inner(x, times=2):
    return x * times + OFFSET


@kernel
def outer(x):
    return inner(x) + TABLE[1]


@kernel
def in_comprehension(x):
    return [inner(i) for i in range(x)]


@kernel
def mean_of_draws(key, count):
    total = 0.0
    for k in range(count):
        total += uniform(key, k)
    return total / count


def unmarked(x):
    return x


@kernel
def calls_unmarked(x):
    return unmarked(x)


@kernel
def calls_itself(x):
    return calls_itself(x - 1) if x > 0 else 0


@kernel
def ping(x):
    return pong(x)


@kernel
def pong(x):
    return ping(x)


@kernel(twin="stoker.nowhere:thing")
def twin_without_module(x):
    return x


@kernel(twin="stoker.rng.compiled:no_such_twin")
def twin_without_attribute(x):
    return x


@kernel
def divide(x, y):
    return x / y


@kernel
def spin(flag, turns):
    """Wait for the flag: ends well only if another thread can run meanwhile."""
    # The store may alias the flag, so the flag is read again at every turn.
    while flag[0] == 0 and turns[0] < 10**10:
        turns[0] += 1
    return flag[0]


def test_a_kernel_is_the_function_itself():
    def plain(x):
        return x

    assert kernel(plain) is plain
    assert mark_of(plain).twin is None
    assert mark_of(unmarked) is None
    assert mark_of(3) is None
    assert mark_of(uniform).twin == "stoker.rng.compiled:uniform"
    assert outer(4) == 31


def test_callees_are_compiled_with_their_caller():
    fast = compiled(outer)
    assert fast(4) == outer(4) == 31
    assert fast is compiled(outer)
    assert compiled(inner)(5) == 13
    assert compiled(inner)(5, 7) == 38
    assert compiled(in_comprehension)(4) == [3, 5, 7, 9]
    key = make_key(1, 2, 3, 4)
    assert compiled(mean_of_draws)(machine_key(key), 10) == mean_of_draws(key, 10)


@kernel
def sum_of_parts(parts, more):
    return parts[0][0] + parts[1][-1] + more


def test_a_direct_call_is_that_of_the_dispatcher_for_one_form_of_arguments():
    given = (np.arange(3), np.arange(4.0)), 2
    fast = compiled(sum_of_parts)
    call = direct(sum_of_parts, *given)
    assert len(fast.overloads) == 1
    for parts in (given[0], (np.arange(5), np.arange(9.0))):
        assert call(parts, 2) == fast(parts, 2) == sum_of_parts(parts, 2)
    assert len(fast.overloads) == 1
    with pytest.raises(TypeError):
        call(given[0])


def test_without_machine_code_a_direct_call_is_the_function(monkeypatch):
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    assert direct(in_plain_mode_only, 1) is in_plain_mode_only


@kernel
def in_plain_mode_only(x):
    return x


def test_flags_are_those_of_the_contract():
    options = compiled(outer).targetoptions
    assert options["nogil"] is True
    assert options["error_model"] == "python"
    assert compiled(uniform).targetoptions["error_model"] == "numpy"
    assert not options.get("fastmath")
    assert not options.get("parallel")
    for fast in (divide, compiled(divide)):
        with pytest.raises(ZeroDivisionError):
            fast(1.0, 0.0)


def test_machine_code_runs_without_the_interpreter_lock():
    flag, turns = np.zeros(1, np.int64), np.zeros(1, np.int64)
    fast = compiled(spin)
    fast(np.ones(1, np.int64), turns)
    results = []
    thread = threading.Thread(target=lambda: results.append(fast(flag, turns)))
    thread.start()
    while thread.is_alive() and turns[0] == 0:
        pass
    flag[0] = 1
    thread.join(timeout=60)
    assert results == [1]
    assert turns[0] > 0


def test_many_threads_get_one_dispatcher():
    @kernel
    def fresh(x):
        return x + 1

    gate, found = threading.Barrier(4), []

    def ask():
        gate.wait(timeout=30)
        found.append(compiled(fresh))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(found) == 4
    assert len(set(map(id, found))) == 1


def closing():
    factor = 3

    def closes(x):
        return x * factor

    return closes


def keyword_only(x, *, step=5):
    return x + step


def any_keyword(x, **more):
    return x


def typed_in():
    space = {"__name__": "typed_in"}
    exec("def typed(x):\n    return x\n", space)
    return space["typed"]


ITSELF = ".*: a kernel must not call itself, directly or through others"
REFUSED = [
    *((kernel, thing, "kernel: expected a plain function, got")
      for thing in (len, 3, math.sqrt, threading.Thread)),
    (kernel, closing(), r"closes \(.*test_jit.py:\d+\): a kernel must not close over"),
    (compiled, closing(), "this one uses factor: pass them as arguments"),
    (kernel, keyword_only, "keyword_only .*takes positional arguments only"),
    (kernel, any_keyword, "any_keyword .*takes positional arguments only"),
    (compiled, unmarked, r"unmarked \(.*\): expected a kernel: mark the function with @kernel"),
    (compiled, calls_unmarked,
     r"calls_unmarked \(.*\) calls .*unmarked \(.*\), which is not a kernel: mark it"),
    (compiled, calls_itself, "calls_itself " + ITSELF),
    (compiled, ping, "ping " + ITSELF),
    *((lambda twin: kernel(twin=twin), twin, "kernel twin: expected 'module:attribute', got")
      for twin in ("nocolon", "a:b:c", ":b", "a:", "a b:c")),
    (compiled, twin_without_module, "its twin 'stoker.nowhere:thing' cannot be imported"),
    (compiled, twin_without_attribute,
     "its twin 'stoker.rng.compiled:no_such_twin' cannot be imported"),
    (compiled, kernel(typed_in()), "must be a file on disk, so that edits are detected"),
]  # fmt: skip
"""Everything that marking and compiling a function refuse: (call, argument, message)."""


@pytest.mark.parametrize(("call", "argument", "message"), REFUSED)
def test_what_is_refused(call, argument, message):
    with pytest.raises(BuildError, match=message):
        call(argument)


def test_functions_of_one_name_have_symbols_of_their_own(tmp_path):
    found = []
    for number in (1, 2):
        path = tmp_path / str(number) / "same.py"
        path.parent.mkdir()
        path.write_text(
            f"from stoker.jit import kernel\n@kernel\ndef same(x):\n    return x + {number}\n"
        )
        spec = importlib.util.spec_from_file_location("same", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        fast = compiled(module.same)
        assert fast(1) == 1 + number
        found.append(fast.overloads[fast.signatures[0]].fndesc.mangled_name)
    assert found[0] != found[1]
    assert all("same_" in name for name in found)


@kernel
def for_cache_tests(x):
    return x + 41


@pytest.fixture
def other_root():
    """Let a test set the cache root, for a kernel that is not loaded yet; set it back."""
    before = cache_root()
    compiling._done.pop(for_cache_tests, None)
    yield
    set_cache_root(before)


def test_a_cache_that_cannot_be_written_is_refused(tmp_path, other_root):
    (tmp_path / "file").write_text("")
    set_cache_root(tmp_path / "file" / "kernels")
    with pytest.raises(ResourceError) as caught:
        compiled(for_cache_tests)
    assert "file/kernels: cannot write there (Not a directory)" in caught.value.message
    assert "set_cache_root or XDG_CACHE_HOME" in caught.value.message
    assert caught.value.details == {"path": str(tmp_path / "file" / "kernels")}


def test_a_cache_that_anybody_may_write_to_is_refused(tmp_path, other_root):
    root = tmp_path / "open"
    root.mkdir()
    root.chmod(0o777)
    set_cache_root(root)
    with pytest.raises(
        ResourceError, match=r"that others cannot write, got owner .* mode drwxrwxrwx"
    ):
        compiled(for_cache_tests)


def test_the_cache_is_made_for_its_owner_alone(tmp_path, other_root):
    set_cache_root(tmp_path / "deep" / "root")
    fast = compiled(for_cache_tests)
    assert fast(1) == 42
    folders = [tmp_path / "deep" / "root", *(tmp_path / "deep" / "root").iterdir()]
    assert len(folders) == 2
    assert folders[1].name.startswith("for_cache_tests-")
    for folder in folders:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_default_root_is_the_users_cache(monkeypatch, tmp_path, other_root):
    monkeypatch.setattr(diskcache, "_chosen", [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "stoker" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root() == tmp_path / "home" / ".cache" / "stoker" / "kernels"
