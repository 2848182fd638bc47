"""`--check-slow` fails the unmarked tests that compile or take long, and no others."""

import subprocess
import sys
from pathlib import Path

import costs
import pytest

CONFTEST = """
import pathlib
from costs import CheckSlow

def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes longer than a second")
    check = CheckSlow(limit_s=0.3)
    check.kernels = pathlib.Path(__file__).parent / "kernels"
    config.pluginmanager.register(check)
"""
TESTS = """
import pathlib, subprocess, sys, time
import pytest

def compiles(name):
    (pathlib.Path(__file__).parent / "kernels" / f"{name}-{32 * '0'}").touch()

def takes_time():
    began = time.process_time()
    while time.process_time() < began + 0.4:
        pass

@pytest.fixture(scope="module")
def costly():
    takes_time()

def test_cheap():
    (pathlib.Path(__file__).parent / "kernels" / "recent.json").touch()

def test_compiling():
    compiles("flip")

@pytest.mark.slow
def test_compiling_marked():
    compiles("crop")

def test_long():
    takes_time()

@pytest.mark.slow
def test_long_marked():
    takes_time()

def test_long_setup(costly):
    pass

def test_shared_setup(costly):
    pass

def test_long_child():
    code = "import time\\nwhile time.process_time() < 0.4: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


@pytest.mark.slow
def test_unmarked_tests_that_cost_much_fail(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_them.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {Path(costs.__file__).parent}\naddopts = -p no:cacheprovider\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    failed = {line.split("::")[1].split()[0] for line in lines}
    assert failed == {"test_compiling", "test_long", "test_long_setup", "test_long_child"}
    assert "4 failed, 4 passed" in done.stdout
    assert "without the marker slow, got 1 (flip-000" in done.stdout
    assert "expected at most 0.3 CPU-s of a test without the marker slow, got" in done.stdout
