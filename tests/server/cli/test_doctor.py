"""`stoker doctor`: each limit that is too low is a problem with its remedy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import call

from stoker.protocol.errors import MORE_FILES
from stoker.server.commands import host_checks

NAMES = [
    "versions", "configuration", "cores", "memory", "memlock", "open files", "/dev/shm", "codecs",
    "kernel cache", "compiler", "gpu",
]  # fmt: skip
WITH_A_GPU = (
    "import sys; from stoker.server.commands import host_checks; host_checks._GPUS = '/dev/null';"
    " sys.argv = ['stoker', 'doctor', '--json']; from stoker.server.__main__ import main; main()"
)


def findings(code: int, printed: str) -> dict[str, dict[str, str]]:
    told = json.loads(printed)
    found = {finding["name"]: finding for finding in told["findings"]}
    assert list(found) == NAMES
    problems = [name for name, finding in found.items() if finding["remedy"]]
    assert (told["problems"], code) == (len(problems), int(bool(problems)))
    return found


def examined(**environment: str) -> dict[str, dict[str, str]]:
    code, printed, errors = call("doctor", "--json", **environment)
    assert errors == ""
    return findings(code, printed)


def limited(*limits: str, code: str = "") -> dict[str, dict[str, str]]:
    command = ["-c", code] if code else ["-m", "stoker.server", "doctor", "--json"]
    ended = subprocess.run(
        ["prlimit", *limits, sys.executable, *command], capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    return findings(ended.returncode, ended.stdout)


def test_what_is_in_order_and_what_is_not_as_lines() -> None:
    code, printed, errors = call("doctor", STOKER_MEMORY_LIMIT="1MiB")
    assert errors == ""
    lines = [line for line in printed.splitlines() if "remedy: " not in line]
    assert [line.split(": ")[0].split("  ", 1)[1].strip() for line in lines] == NAMES
    assert {line.split()[0] for line in lines} <= {"ok", "problem"}
    assert code == int("problem" in {line.split()[0] for line in lines})
    assert printed.count("remedy: ") == sum(line.startswith("problem") for line in lines)


@pytest.mark.slow
def test_too_few_open_files() -> None:
    found = limited("--nofile=100:100")["open files"]
    assert found["found"] == "100, at most 100"
    assert "workers needs at least" in found["remedy"]
    assert MORE_FILES in found["remedy"]
    found = limited("--nofile=600:4000")["open files"]
    assert found["found"].startswith("600, at most 4000: enough for ")
    assert found["remedy"] == f"raise it for 1024 (daemon.max_sessions): {MORE_FILES}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        ("/dev/none", "not needed: there is no GPU whose driver locks batches"),
        ("/dev/null", "NVIDIA's driver does not count the batches that it locks"),
    ],
)
def test_a_low_limit_on_locked_memory_is_no_problem(gpu: str, why: str) -> None:
    """tests/client/test_device.py: a Loader whose driver refuses warns, with the remedy."""
    code = WITH_A_GPU.replace("/dev/null", gpu)
    found = limited(f"--memlock={2**16}:{2**20}", code=code)["memlock"]
    assert (found["found"], found["remedy"]) == (f"64.0 KiB, at most 1.0 MiB; {why}", "")


@pytest.mark.parametrize(
    ("name", "variables", "found", "remedy"),
    [
        ("configuration", {"STOKER_WORKERS_COUNT": "0"}, "environment variable", "correct"),
        ("configuration", {"STOKER_CONFIG": "/nowhere.toml"}, "/nowhere.toml: No such", "correct"),
        ("memory", {"STOKER_MEMORY_LIMIT": "99999GiB"}, "is 97.7 TiB", "lower memory.limit"),
        ("compiler", {"NUMBA_DISABLE_JIT": "1"}, "NUMBA_DISABLE_JIT is set", "unset it"),
    ],
)
def test_mistakes_of_the_environment(
    name: str, variables: dict[str, str], found: str, remedy: str
) -> None:
    finding = examined(**variables)[name]
    assert found in finding["found"]
    assert remedy in finding["remedy"]


def test_a_cache_of_kernels_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for place, why in {"file/in": "it cannot be written", "open": "others cannot write"}.items():
        finding = examined(STOKER_DAEMON_CACHE_ROOT=f"{tmp_path}/{place}")["kernel cache"]
        assert why in finding["found"]
        assert "daemon.cache_root" in finding["remedy"]
    (tmp_path / "good").mkdir(mode=0o700)
    (tmp_path / "good" / "kernel").write_bytes(bytes(3000))
    finding = examined(STOKER_DAEMON_CACHE_ROOT=f"{tmp_path}/good")["kernel cache"]
    assert finding["found"].startswith(f"{tmp_path}/good: 1 file, 2.9 KiB, ")
    assert not (tmp_path / "file" / "in").exists()


def test_packages_that_are_missing_or_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"simplejpeg": "", "numba": "0.1", "torch": "2.5.0+cpu"}
    real = host_checks.version_of
    monkeypatch.setattr(host_checks, "version_of", lambda name: versions.get(name, real(name)))
    monkeypatch.setattr(host_checks, "gpus", lambda: ["/dev/nvidia0"])
    found = examined()
    assert found["versions"]["remedy"] == "install simplejpeg: pip install 'stoker[server]'"
    assert "torch 2.5.0+cpu" in found["versions"]["found"]
    assert "numba>=" in found["compiler"]["remedy"]
    assert found["gpu"]["found"] == "1, but torch 2.5.0+cpu has no CUDA"


def test_no_compiler_and_no_device_is_loaded(loaded_by) -> None:
    code = "from stoker.server.commands.host_checks import examine; examine()"
    assert loaded_by(code, "numba", "llvmlite", "torch", "zmq", "pyarrow") == set()


def test_codecs_are_named_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined()["codecs"]["found"] == "JPEG, PNG, WebP, TIFF"
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    finding = examined()["codecs"]
    assert finding["found"] == "PNG, WebP, TIFF"
    assert finding["remedy"] == "JPEG cannot be decoded: pip install 'stoker[server]'"


def test_the_cores_and_their_limit() -> None:
    count = len(os.sched_getaffinity(0))
    assert examined()["cores"]["found"].split()[2] == str(os.cpu_count())
    assert 1 <= int(examined()["cores"]["found"].split()[0]) <= count
