"""Fixtures and settings of all tests: the order of modules, the kernel cache, scripts' processes.

The plugins `leaks` (what a test opens, it closes) and `starts` (how Stoker starts in a test) are in
`tests/support`.
"""

import contextlib
import fcntl
import gc
import importlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import warm
from warm import Script

from stoker.dataset.reading.uniform_fields import Located
from stoker.jit import set_cache_root

pytest_plugins = ["leaks", "starts"]

os.environ.setdefault("STOKER_JPEG", "libjpeg")
"""Daemons of tests do not compile the decoder of JPEGs beside their work, unless a test asks."""

LONGEST = (
    "front_door/test_lock.py",  # two minutes of waiting for a lock, which take no processor
    "ops/test_contract.py",
    "law/test_law.py",
    "docs/test_pages.py",
    "torture/test_storms.py",
    "examples/test_ray_train.py",
    "scale_out/test_serve.py",
    "pipeline/test_random_pipelines.py",
    "law/test_promises.py",
    "client/test_tcp_links.py",
    "client/test_reconnect.py",
    "ops/test_machine_code.py",  # behind what compiles most kernels
    "server/robust/test_full_disk.py",
    "server/workers/test_supervisor.py",
    "compat/test_ffcv_public.py",
    "server/robust/test_hangs.py",
    "server/robust/test_builds.py",
    "torture/test_endurance.py",
    "examples/test_segmentation.py",
    "compat/test_ffcv_steps.py",
    "house/test_types.py",  # without the cache of mypy that `make check` leaves
    "server/stages/test_stage_times.py",
    "dataset/images/jpeg/test_decoder_choice.py",
    "house/test_new_op.py",
)
"""Modules that take a quarter of a minute or more, the longest first."""


# The time to draw an example says nothing about the code: other processes keep CPUs busy.
hypothesis.settings.register_profile(
    "stoker", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("stoker")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag of `costs.CheckSlow`, and the one of tools/alone.py."""
    words = "start with an empty kernel cache; fail unmarked tests that compile or take long"
    parser.addoption("--check-slow", action="store_true", help=words)
    parser.addoption("--reversed", action="store_true", help="run the last test first")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the order of `pytest_collection_modifyitems` among several processes; hear Ctrl-C.

    A shell starts a background command with SIGINT ignored, and all its children inherit that:
    without the handler, tests that interrupt a process would wait for ever.
    """
    config.option.loadscopereorder = False
    if config.getoption("--check-slow"):
        check = importlib.import_module("costs").CheckSlow()
        config.pluginmanager.register(check, "check-slow")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run long modules first: one that begins last has a process for itself, and others idle.

    With `--reversed`, run the last test of the last module first, to find tests that need others.
    """
    if config.getoption("--reversed"):
        items.reverse()
        return
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """Import all modules without the garbage collector: their objects stay alive."""
    with one_imports_first(session.config):
        gc.disable()
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.enable()


@contextlib.contextmanager
def one_imports_first(config: pytest.Config) -> Iterator[None]:
    """Of several processes, let one import all tests while the others wait.

    It writes their bytecode with rewritten assertions, and Hypothesis's constants, which the others
    read. Without that, each process would do the same: 20 of 34 CPU-s in a new checkout. A process
    that crashes lets the next one begin.
    """
    if not hasattr(config, "workerinput"):  # the variable is there for what a test starts, too
        yield
        return
    path = Path(config.option.basetemp).parent / "imported"
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if path.read_text():
            fcntl.flock(file, fcntl.LOCK_UN)
            yield
            return
        yield
        file.write("by one process\n")


@pytest.fixture(scope="session", autouse=True)
def few_collections() -> None:
    """Look at fewer of the objects that stay: compiling makes many short-lived ones."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run, the same in all its processes (`pytest -n 2`)."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Path]:
    """The folder for kernels that tests, and daemons of tests, compile: each is compiled once.

    They stay from run to run in `.pytest_cache/kernels`, or where STOKER_TEST_KERNELS says; their
    names are digests of all that they depend on. `make test` empties the folder first, and
    `--check-slow` takes a new one. Child processes find the folder by XDG_CACHE_HOME.
    """
    home = tmp_path_factory.mktemp("cache")
    kernels = home / "stoker" / "kernels"
    kernels.parent.mkdir()
    root = Path(__file__).parents[1]
    kept = Path(os.environ.get("STOKER_TEST_KERNELS") or root / ".pytest_cache/kernels").absolute()
    check = pytestconfig.pluginmanager.get_plugin("check-slow")
    if check is not None:
        kept = check.kernels = home / "checked"
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    kernels.symlink_to(kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home))
        set_cache_root(kernels)
        warm.share_kernels(str(home))
        yield kernels


@pytest.fixture(scope="session", autouse=True)
def bytecode(run_folder: Path) -> Iterator[None]:
    """The folder for bytecode of child processes if the environment forbids it next to sources.

    Without any, every daemon would compile all its modules again: a quarter of its start.
    """
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode:
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(run_folder / "bytecode"))
        yield


@pytest.fixture(scope="session")
def loaded_by() -> Callable[..., set[str]]:
    """Run code in a fresh interpreter; return those of the named modules that it has loaded then.

    `loaded_by("import stoker.ops", "numba", "torch")`: what the code prints is thrown away.
    """

    def run(code: str, *names: str) -> set[str]:
        script = f"{code}\nimport sys\nprint(*{{*{names}}} & {{*sys.modules}}, file=sys.stderr)"
        command = [sys.executable, "-W", "error", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return set(done.stderr.split())

    return run


@pytest.fixture(scope="session")
def located() -> Callable[..., Located]:
    """Return what says where samples of tables in memory lie: tables, places of the rows."""

    def locate(tables: Sequence[np.ndarray], index: np.ndarray) -> Located:
        assert all(0 <= index.min() <= index.max() < len(table) for table in tables)
        addresses = [table.ctypes.data + table.strides[0] * index for table in tables]
        columns = [(table.dtype, table.shape[1:]) for table in tables]
        shape = len(tables), len(index)
        return Located(np.array(addresses, np.int64).reshape(shape), columns, list(tables))

    return locate


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., str]:
    """Run a script in a fresh interpreter with a cache under tmp_path; return its output.

    `warm=True`: in a process that is forked from one with numba, and with no kernels.
    """

    def run(
        script: str, *args: str, cache: Path | None = None, warm: bool = False, **environment: str
    ) -> str:
        env = {
            **os.environ,
            "XDG_CACHE_HOME": str(cache or tmp_path / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPYCACHEPREFIX": "",
            **environment,
        }
        words = ["-W", "error", "-c", textwrap.dedent(script), *args]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": env}
        with (
            Script(*words, imports=["numba"], **pipes)
            if warm
            else subprocess.Popen([sys.executable, *words], **pipes)
        ) as done:
            out, err = done.communicate(timeout=120)
        assert done.returncode == 0, err
        return out.strip()

    return run
