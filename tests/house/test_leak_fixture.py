"""The leak fixture itself: each kind of leak fails its test by name, and clean tests pass."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parent.parent / "support"

LEAKING = '''
import os, subprocess, sys, tempfile, threading
import pytest, zmq

KEPT = []
SLEEPER = [sys.executable, "-c", "import sys; sys.stdin.read()"]

@pytest.fixture(scope="module")
def server():
    code = """if 1:
        import subprocess, sys
        for line in sys.stdin:
            subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
            print("started", flush=True)
    """
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        yield process

def test_clean(tmp_path):
    with open(tmp_path / "x", "w"), tempfile.TemporaryDirectory():
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        subprocess.run([sys.executable, "-c", ""], check=True)
    context = zmq.Context()
    context.socket(zmq.PULL).close()
    context.term()

def test_wider_fixture_may_restart_children(server):
    server.stdin.write("go\\n")
    server.stdin.flush()
    assert server.stdout.readline() == "started\\n"

def test_descriptor():
    KEPT.append(os.open("/proc/version", os.O_RDONLY))

def test_same_number():
    os.close(KEPT[0])
    assert os.open("/proc/meminfo", os.O_RDONLY) == KEPT[0]

def test_memory_map():
    import mmap
    number = os.memfd_create("slab")
    os.truncate(number, 4096)
    KEPT.append(mmap.mmap(number, 4096))
    KEPT[-1][0] = 1
    os.close(number)

def test_untouched_map():
    import mmap
    number = os.memfd_create("untouched")
    os.truncate(number, 8192)
    KEPT.append(mmap.mmap(number, 8192))
    os.close(number)

def test_thread():
    stop = threading.Event()
    KEPT.append(stop)
    threading.Thread(target=stop.wait, name="forgotten").start()

def test_context():
    KEPT.append(zmq.Context())
    KEPT[-1].socket(zmq.PULL).close()

def test_child():
    KEPT.append(subprocess.Popen(SLEEPER, stdin=subprocess.PIPE))

def test_orphan():
    code = "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdin=0, start_new_session=True)"
    reader, writer = os.pipe()
    subprocess.run([sys.executable, "-c", code, *SLEEPER], stdin=reader, check=True)
    os.close(reader)
    KEPT.append(writer)

def test_zombie():
    KEPT.append(subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE))
    KEPT[-1].stdout.read()
    KEPT[-1].stdout.close()

def test_shared_memory():
    name = f"/dev/shm/stoker-leak-{os.getpid()}"
    KEPT.append(name)
    open(name, "w").close()

def test_temporary():
    KEPT.append(tempfile.mkdtemp(prefix="forgotten"))

def test_runtime():
    os.mkdir(os.path.join(os.environ["XDG_RUNTIME_DIR"], "daemon"))

def test_wait():
    timer = threading.Timer(0.2, int)
    timer.start()

@pytest.fixture(scope="session", autouse=True)
def tidy():
    yield
    for kept in KEPT:
        if isinstance(kept, threading.Event):
            kept.set()
        elif isinstance(kept, subprocess.Popen):
            kept.stdin and kept.stdin.close()
            kept.wait()
        elif isinstance(kept, zmq.Context):
            kept.term()
        elif isinstance(kept, str) and os.path.isfile(kept):
            os.unlink(kept)
        elif isinstance(kept, str):
            os.rmdir(kept)
        elif isinstance(kept, int):
            os.close(kept)
'''

EXPECTED = {
    "test_descriptor": r"open descriptor \d+ -> /proc/version",
    "test_same_number": r"open descriptor \d+ -> /proc/meminfo",
    "test_memory_map": r"mapped slab [0-9a-f]+-[0-9a-f]+ .*memfd:slab",
    "test_untouched_map": r"mapped slab [0-9a-f]+-[0-9a-f]+ .*memfd:untouched",
    "test_thread": r"running thread 'forgotten'",
    "test_context": r"a ZeroMQ context was not terminated",
    "test_child": r"process \d+: .*python\S* -c import sys; sys.stdin.read\(\)",
    "test_orphan": r"process \d+: .*python\S* -c import sys; sys.stdin.read\(\)",
    "test_zombie": r"process \d+: \(zombie: not waited for\)",
    "test_shared_memory": r"/dev/shm/stoker-leak-\d+",
    "test_temporary": r"/\S+/forgotten\w+",
    "test_runtime": r"/\S+/run/daemon",
}
# A context has threads and descriptors; a map of Python's, a child and an orphan one descriptor.
MOST = {
    "test_context": 9,
    "test_memory_map": 2,
    "test_untouched_map": 2,
    "test_child": 2,
    "test_orphan": 2,
}
CLEAN = ("test_clean", "test_wider_fixture_may_restart_children", "test_wait")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("leaks")
    (folder / "conftest.py").write_text("import leaks\nleaks.PATIENCE_S = 0.5\nfrom leaks import *")
    (folder / "test_leaking.py").write_text(LEAKING)
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {SUPPORT}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--tb=short"]
    command += [f"--basetemp={folder}/tmp"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("test", CLEAN)
def test_clean_tests_pass(report: str, test: str) -> None:
    assert f"PASSED test_leaking.py::{test}" in report
    assert f"ERROR test_leaking.py::{test}" not in report


@pytest.mark.slow
@pytest.mark.parametrize("test", EXPECTED)
def test_each_leak_is_named(report: str, test: str) -> None:
    section = re.search(rf"_ ERROR at teardown of {test} _+\n(.*?)\n[_=-]{{5,}}", report, re.DOTALL)
    assert section, report
    assert re.search(EXPECTED[test], section[1]), section[1]
    assert section[1].count("\n  ") <= MOST.get(test, 1), (
        f"more is reported than was leaked:\n{section[1]}"
    )


def test_every_kind_is_counted(report: str) -> None:
    assert f"{len(EXPECTED)} errors" in report
    assert f"{len(CLEAN) + len(EXPECTED)} passed" in report
