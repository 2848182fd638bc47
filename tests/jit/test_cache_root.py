"""The default folder of compiled kernels: the user's cache, or a substitute for it."""

import os
import tempfile
from pathlib import Path

import pytest

from stoker.jit import cache_root, cacheroot, compiled, diskcache, kernel, set_cache_root
from stoker.jit.cacheroot import default_cache_root
from stoker.jit.diskcache import kernel_digest, kernel_folder
from stoker.protocol.errors import ResourceError


@kernel
def for_roots(x):
    return x + 17


@pytest.fixture
def unset(monkeypatch, tmp_path):
    """Nobody chose a root; temporary files are the test's own."""
    monkeypatch.setattr(diskcache, "_chosen", [])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary" / f"stoker-kernels-{os.geteuid()}"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"XDG_CACHE_HOME": "{}/cache", "HOME": "{}/home"}, "{}/cache/stoker/kernels"),
        ({"HOME": "{}/home"}, "{}/home/.cache/stoker/kernels"),
        ({"XDG_CACHE_HOME": "", "HOME": "{}/home"}, "{}/home/.cache/stoker/kernels"),
    ],
)
def test_the_users_cache_comes_first(variables, expected, unset, tmp_path):
    given = {name: value.format(tmp_path) for name, value in variables.items()}
    assert default_cache_root(given) == Path(expected.format(tmp_path))
    assert not Path(expected.format(tmp_path)).exists()


@pytest.mark.parametrize("home", ["{}/file", "{}/file/below", "~"])
def test_a_home_that_cannot_be_written_or_is_none_has_a_stand_in(home, unset, tmp_path):
    (tmp_path / "file").write_text("")
    assert default_cache_root({"HOME": home.format(tmp_path)}) == unset


def test_kernels_that_were_compiled_ahead_are_copied_to_the_stand_in(
    unset, tmp_path, monkeypatch, python
):
    script = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import test_cache_root as t
        fast = t.compiled(t.for_roots)
        print(fast(1), sum(fast.stats.cache_hits.values()), t.cache_root())
    """
    folder, ahead = str(Path(__file__).parent), tmp_path / "cache" / "stoker" / "kernels"
    assert python(script, folder) == f"18 0 {ahead}"
    # The tests may run as root, who can write everywhere: so the check itself is replaced.
    locked = "        t.cacheroot.can_write = lambda path: False\n        fast ="
    temporary = {"TMPDIR": str(unset.parent)}
    assert python(script.replace("        fast =", locked), folder, **temporary) == f"18 1 {unset}"
    assert sorted(p.suffix for p in unset.rglob("*") if p.is_file()) == ["", ".nbc", ".nbi"]


@pytest.fixture
def ahead(unset, tmp_path, monkeypatch):
    """The user's cache, that can only be read; it has a kernel compiled ahead."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cacheroot, "can_write", lambda path: False)
    root = tmp_path / "cache" / "stoker" / "kernels"
    stored = root / f"for_roots-{kernel_digest(for_roots)}"
    stored.mkdir(parents=True)
    (stored / "code.nbc").write_bytes(b"machine code")
    root.chmod(0o755)
    return root


def test_only_the_owner_may_write_a_root_that_is_copied(ahead, unset):
    """Whoever can write there could put machine code into this process."""
    ahead.chmod(0o777)
    kernel_folder(for_roots, kernel_digest(for_roots))
    assert not list(unset.rglob("*.nbc"))
    ahead.chmod(0o755)
    folder = kernel_folder(for_roots, kernel_digest(for_roots))
    assert folder.is_relative_to(unset)
    assert (folder / "code.nbc").read_bytes() == b"machine code"


def test_a_cache_that_cannot_be_entered_is_as_one_that_is_missing(unset, tmp_path, monkeypatch):
    """A link to itself refuses everybody, root too."""
    (tmp_path / "closed").symlink_to("closed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "closed"))
    assert kernel_folder(for_roots, kernel_digest(for_roots)).is_relative_to(unset)


def test_without_folders_for_temporary_files_the_runtime_folder_is_used(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "runtime").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    monkeypatch.setattr(cacheroot, "TEMPORARY", str(tmp_path / "missing"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    name = f"stoker-kernels-{os.geteuid()}"
    root = default_cache_root({"HOME": str(tmp_path / "file")})
    assert root == tmp_path / "runtime" / name
    assert cacheroot.is_fallback(root)


def test_a_link_in_the_way_is_not_followed(unset, tmp_path, monkeypatch, caplog):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    unset.symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(cacheroot, "can_write", lambda path: False)
    monkeypatch.setattr(cacheroot, "_warned", set())
    used = cache_root()
    assert used.name.startswith(f"{unset.name}-")
    for _ in range(2):
        assert kernel_folder(for_roots, kernel_digest(for_roots)).is_relative_to(used)
    assert cache_root() == used
    assert not list((tmp_path / "elsewhere").iterdir())
    assert [record.message for record in caplog.records] == [
        f"kernel cache {unset}: expected a folder and no link; {used} is used now"
    ]


def test_a_root_that_was_chosen_has_no_stand_in(unset, tmp_path):
    (tmp_path / "file").write_text("")
    set_cache_root(tmp_path / "file")
    with pytest.raises(ResourceError, match="file: cannot write there"):
        compiled(for_roots)
