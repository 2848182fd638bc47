"""The numba versions with which the replacements for its parts are used, and other versions."""

import sys
import tomllib
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import caching
from packaging.requirements import Requirement
from packaging.version import Version

from stoker.jit import compiled, compiling, diskcache, functions, kernel, numba_version
from stoker.protocol.errors import BuildError

PROJECT = Path(__file__).parents[2]


@kernel
def inner(values):
    return values[1:].sum()


@kernel
def outer(values):
    return inner(values[1:]) + 1


@pytest.fixture
def newer(monkeypatch, tmp_path):
    """The installed numba under another version, and no kernels from before."""
    monkeypatch.setattr(numba, "__version__", "0.99.0")
    monkeypatch.setattr(diskcache, "_chosen", [tmp_path])
    monkeypatch.setattr(compiling, "_done", {})
    monkeypatch.setattr(compiling, "_callee_forms", {})
    caches = [numba_version.is_supported, diskcache.toolchain, diskcache.kernel_digest]
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.61.2", False), ("0.63.0", False), ("0.63.1", True), ("0.64.0rc1", True),
        ("0.68.1", True), ("0.69.0dev0+12.gab", False), ("0.69.0", False), ("1.0", False),
        ("unknown", False),
    ],
)  # fmt: skip
def test_the_bounds(monkeypatch, newer, version, expected):
    monkeypatch.setattr(numba, "__version__", version)
    assert numba_version.is_supported() == expected


def test_the_bounds_are_those_of_the_project():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    needed = project["optional-dependencies"]["server"]
    (given,) = (text for text in needed if text.startswith("numba"))
    assert given == numba_version.SUPPORTED
    first, before = (
        ".".join(map(str, bound)) for bound in (numba_version.FIRST, numba_version.BEFORE)
    )
    assert Requirement(given).specifier == Requirement(f"numba>={first},<{before}").specifier


@pytest.mark.parametrize("file", ["constraints.txt", "constraints-older.txt"])
def test_tested_versions_are_within_the_bounds(file):
    lines = (PROJECT / file).read_text().splitlines()
    (version,) = (line.partition("==")[2] for line in lines if line.startswith("numba=="))
    assert Version(version) in Requirement(numba_version.SUPPORTED).specifier


@pytest.mark.slow
def test_a_newer_numba_compiles_alone(newer, caplog):
    fast = compiled(outer)
    assert fast(np.arange(5.0)) == 2 + 3 + 4 + 1
    types = {type(form).__name__ for form in (fast, *compiling._callee_forms.values())}
    assert types == {"StoredDispatcher"}
    assert len(caplog.records) == 1
    assert caplog.messages[0].startswith("numba 0.99.0 was not tested with this Stoker")
    assert caplog.messages[0].endswith("install numba>=0.63.1,<0.69")
    compiling._done.clear()
    again = compiled(outer)
    assert again is not fast
    assert again(np.arange(5.0)) == 10
    assert sum(again.stats.cache_hits.values()) == 1  # stored, and found in its own folder


def test_its_kernels_are_named_apart(newer, monkeypatch):
    """So a Stoker that supports it later does not load them as its own."""
    alone = diskcache.toolchain()
    monkeypatch.setattr(numba_version, "BEFORE", (1,))
    for cached in (numba_version.is_supported, diskcache.toolchain):
        cached.cache_clear()
    assert diskcache.toolchain() != alone


@pytest.mark.slow
def test_functions_that_are_no_kernels_are_not_stored(newer, tmp_path):
    def doubled(value):
        return 2 * value

    options = {"nogil": True}
    fast = functions.function_dispatcher(doubled, options, functions.content_key(doubled))
    assert fast(3) == 6
    assert functions.local_dispatcher(numba.njit, None, doubled)(4) == 8
    assert not list(tmp_path.rglob("*.nb?"))


def test_a_numba_without_the_needed_parts(newer, monkeypatch):
    """If its cache read files by another method, they would not be checked."""
    monkeypatch.delattr(caching.IndexDataCacheFile, "_load_index")
    monkeypatch.delitem(sys.modules, "stoker.jit.stored", raising=False)
    expected = (
        r"numba 0\.99\.0 cannot compile kernels of this Stoker \(numba\.core\.caching\."
        r"IndexDataCacheFile has no method _load_index\): install numba>=0\.63\.1,<0\.69"
    )
    with pytest.raises(BuildError, match=expected):
        compiled(outer)
