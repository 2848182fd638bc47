"""Nobody else can put code into the kernel cache: owners, modes and links, on real folders."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from users import ATTACKER, GROUP, VICTIM, as_user, shared_folder, why_none
from warm import Script

from stoker.jit import private
from stoker.jit.private import open_folder, why_unsafe
from stoker.protocol.errors import ResourceError

two_users = pytest.mark.skipif(bool(why_none()), reason=why_none() or "two users")
UNSAFE = "expected a folder of user .* that others cannot write, got owner"


@pytest.fixture
def base():
    """A folder that others can enter, so that modes inside of it count."""
    with shared_folder() as folder:
        yield folder


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757, 0o1707])
def test_a_folder_that_others_can_write_is_refused(base, mode):
    root = base / "root"
    root.mkdir()
    root.chmod(mode)
    with pytest.raises(ResourceError, match=UNSAFE):
        open_folder(root)
    assert "choose another folder" in why_unsafe(root)


def test_a_parent_that_others_can_write_is_refused_unless_it_is_sticky(base):
    assert why_unsafe(base / "tmp" / "root") is None
    open_folder(base / "tmp" / "root", create=True).__exit__()
    (base / "tmp").chmod(0o777)
    assert str(base / "tmp") in why_unsafe(base / "tmp" / "root")


def test_inside_of_a_folder_that_nobody_else_can_enter_modes_do_not_count(base):
    (base / "root").mkdir(mode=0o700)
    (base / "root" / "old").mkdir()
    (base / "root" / "old").chmod(0o777)
    (base / "root" / "old" / "file").touch()
    (base / "root" / "old" / "file").chmod(0o666)
    with open_folder(base / "root" / "old") as folder:
        os.close(folder.open("file"))
    with pytest.raises(ResourceError, match=UNSAFE):
        open_folder(base / "root" / "old", strict=True)
    (base / "root").chmod(0o755)
    with pytest.raises(ResourceError, match=UNSAFE):
        open_folder(base / "root" / "old")


def test_a_step_up_leaves_the_folder_that_nobody_else_can_enter(base):
    (base / "closed").mkdir(mode=0o700)
    (base / "open").mkdir()
    (base / "open").chmod(0o777)
    with pytest.raises(ResourceError, match=UNSAFE):
        open_folder(base / "closed" / ".." / "open")


def test_links_are_followed_and_what_they_name_is_checked(base):
    (base / "real").mkdir()
    (base / "link").symlink_to("real")
    (base / "chain").symlink_to(base / "link")
    open_folder(base / "chain" / "kernels", create=True).__exit__()
    assert (base / "real" / "kernels").is_dir()
    (base / "real").chmod(0o777)
    assert str(base / "real") in why_unsafe(base / "chain" / "kernels")
    (base / "loop").symlink_to("loop")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        open_folder(base / "loop")


def test_files_are_opened_without_following_links_and_replaced_as_a_whole(base):
    (base / "elsewhere").write_text("mine")
    with open_folder(base / "root", create=True) as folder:
        (base / "root" / "link").symlink_to(base / "elsewhere")
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            private.lock_file(folder, "link")
        with folder.replacing("link") as file:
            file.write(b"new")
        with pytest.raises(KeyError), folder.replacing("link") as file:
            raise KeyError
        with folder.reading("link") as path:
            assert Path(path).read_bytes() == b"new"
        assert folder.names() == ["link"]
    assert (base / "elsewhere").read_text() == "mine"


@pytest.fixture
def members(monkeypatch):
    """Let a group be private, with these members."""

    class Group:
        pw_uid = os.geteuid()
        pw_gid = GROUP
        pw_name = gr_name = "someone"
        gr_mem = ()

    accounts = [Group()]
    monkeypatch.setattr(private.pwd, "getpwuid", lambda _: Group())
    monkeypatch.setattr(private.pwd, "getpwall", lambda: accounts)
    monkeypatch.setattr(private.grp, "getgrgid", lambda _: Group())
    private._is_private_group.cache_clear()
    yield Group, accounts
    private._is_private_group.cache_clear()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a folder to a group")
def test_the_users_private_group_may_write_and_no_other(base, members):
    group, accounts = members
    root = base / "root"
    root.mkdir()
    os.chown(root, -1, GROUP)
    root.chmod(0o770)
    assert why_unsafe(root) is None
    for name, value in (("gr_mem", ("someone", "else")), ("gr_name", "staff"), ("pw_gid", 5)):
        private._is_private_group.cache_clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(group, name, value)
            assert why_unsafe(root) is not None, name
    private._is_private_group.cache_clear()
    other = group()
    other.pw_uid = ATTACKER
    accounts.append(other)
    assert why_unsafe(root) is not None


KERNEL = """
import os, sys
user, group = map(int, sys.argv[2:])
os.setgroups([])
os.setresgid(group, group, group)
os.setresuid(user, user, user)
sys.path.insert(0, sys.argv[1])
import users_kernel
from stoker.jit import cache_root, compiled
fast = compiled(users_kernel.added)
print(fast(1), sum(fast.stats.cache_hits.values()), cache_root())
"""
PLANT = """
import os, pickle, sys
class Planted:
    def __reduce__(self):
        return os.mkdir, (sys.argv[2],)
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        if name.endswith((".nbi", ".nbc")):
            path = os.path.join(folder, name)
            os.unlink(path)
            with open(path, "wb") as file:
                file.write(pickle.dumps(Planted()))
            os.chmod(path, 0o644)
            print(name)
"""


class Host:
    """A victim with a home and compiled kernels, and an attacker in the same group."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.home.mkdir()
        os.chown(self.home, VICTIM, GROUP)
        (self.home / "users_kernel.py").write_text(
            "from stoker.jit import kernel\n@kernel\ndef added(x):\n    return x + 29\n"
        )
        self.root = self.home / ".cache" / "stoker" / "kernels"
        self.temporary = base / "tmp"
        self.planted = self.temporary / "planted code ran"

        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def attack(self, script: str, *arguments: object) -> str:
        done = subprocess.run(
            [*as_user(ATTACKER, GROUP), sys.executable, "-c", script, *map(str, arguments)],
            env=self.environment, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        return done.stdout

    def kernel(self) -> tuple[str, str]:
        """Let the victim call its kernel, in a process that becomes the victim's."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.environment}
        numbers = map(str, (VICTIM, GROUP))
        with Script("-c", KERNEL, self.home, *numbers, imports=["numba"], **pipes) as done:
            out, err = done.communicate(timeout=120)
        assert done.returncode == 0, err
        return out.strip(), err

    def plant(self) -> None:
        """Let the group in for a moment, and the attacker replace all pickles."""
        folders = [path for path in (self.root, *self.root.rglob("*")) if path.is_dir()]
        before = {path: path.stat().st_mode & 0o777 for path in folders}
        for path in folders:
            path.chmod(0o770)
        (self.home / ".cache").chmod(0o750)
        (self.home / ".cache" / "stoker").chmod(0o750)
        written = self.attack(PLANT, self.root, self.planted)
        assert ".nbi" in written
        assert ".nbc" in written
        for path, mode in before.items():
            path.chmod(mode)


@pytest.mark.as_a_user
@two_users
def test_a_planted_pickle_is_never_read(base):
    host = Host(base)
    assert host.kernel() == (f"30 0 {host.root}", "")
    assert host.kernel() == (f"30 1 {host.root}", "")
    host.plant()
    found, warned = host.kernel()
    assert found == f"30 0 {host.root}"
    assert f"got owner {ATTACKER}" in warned
    assert not host.planted.exists()
    assert host.kernel() == (f"30 1 {host.root}", "")


@two_users
def test_a_root_that_a_group_can_write_is_not_used_and_one_line_says_so(base):
    host = Host(base)
    host.kernel()
    host.plant()
    host.root.chmod(0o770)
    found, warned = host.kernel()
    used = host.temporary / f"stoker-kernels-{VICTIM}"
    assert found == f"30 0 {used}"
    assert warned.splitlines() == [
        f"kernel cache {host.root}: expected a folder of user {VICTIM} that others cannot write, "
        f"got owner {VICTIM}, mode drwxrwx---; {used} is used now"
    ]
    assert not host.planted.exists()
    assert host.kernel()[0] == f"30 1 {used}"


@pytest.mark.as_a_user
@two_users
def test_a_temporary_folder_that_another_user_made_is_not_used(base):
    host = Host(base)
    host.home.chmod(0o550)
    taken = host.temporary / f"stoker-kernels-{VICTIM}"
    host.attack(f"import os; os.mkdir({str(taken)!r}); os.chmod({str(taken)!r}, 0o777)")
    found, warned = host.kernel()
    (used,) = host.temporary.glob(f"stoker-kernels-{VICTIM}-*")
    assert found == f"30 0 {used}"
    assert warned.splitlines() == [
        f"kernel cache {taken}: expected a folder of user {VICTIM} that others cannot write, "
        f"got owner {ATTACKER}, mode drwxrwxrwx; {used} is used now"
    ]
    assert host.kernel()[0] == f"30 1 {used}", "the next process finds the same folder"
    assert list(taken.iterdir()) == []
