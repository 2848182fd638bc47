"""The unit for systemd, as systemd itself judges it; skipped where systemd is not installed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stoker.server.daemon.service_manager import ServiceManager

MOST_EXPOSED = 2.0
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")


def service(deploy: Path, key: str) -> str:
    """The value of a key of the unit."""
    (found,) = re.findall(rf"^{key}=(.*)$", (deploy / "stoker.service").read_text(), re.MULTILINE)
    return found


@needs_systemd
def test_little_of_the_system_is_exposed(deploy: Path) -> None:
    command = [ANALYZE, "security", "--offline=true", str(deploy / "stoker.service")]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    level = re.search(r"Overall exposure level for stoker\.service: ([0-9.]+)", said.stdout)
    assert level, said.stdout + said.stderr
    assert float(level[1]) <= MOST_EXPOSED


@needs_systemd
def test_systemd_knows_every_key(deploy: Path, tmp_path: Path) -> None:
    text = (deploy / "stoker.service").read_text()
    unit = tmp_path / "stoker.service"
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    command = [ANALYZE, "verify", "--man=no", str(unit)]
    environment = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning"}
    said = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "stoker.service" not in said.stderr, said.stderr


def test_signs_of_life_come_in_half_of_the_time(deploy: Path) -> None:
    assert service(deploy, "Type") == "notify"
    allowed_us = str(int(service(deploy, "WatchdogSec")) * 1_000_000)
    daemon = ServiceManager({"WATCHDOG_USEC": allowed_us})
    assert daemon.every_s == int(service(deploy, "WatchdogSec")) / 2
