"""stoker.toml and the unit: every key, path and option is one that exists."""

import configparser
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.server.settings.config_loading import load

STOKER = str(Path(sys.executable).with_name("stoker"))


def targets(compose: dict[str, Any]) -> dict[str, str]:
    """Target -> source of what the daemon's container mounts."""
    volumes = compose["services"]["daemon"]["volumes"]
    plain = (re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text) for text in volumes)
    return {text.split(":")[1]: text.split(":")[0] for text in plain}


def test_the_configuration_is_read(deploy: Path, compose: dict[str, Any]) -> None:
    config, origins = load(deploy / "stoker.toml", environment={})
    mounted = targets(compose)
    assert origins["daemon.address"].startswith(f"{deploy / 'stoker.toml'}:")
    socket = Path(config.daemon.address.removeprefix("ipc://"))
    assert mounted[str(socket.parent)] == "socket"
    assert mounted[str(Path(config.daemon.cache_root).parent)] == "kernels"
    assert all(str(Path(p).parents[0]) in mounted for p in config.datasets.values())
    assert set(config.daemon.python_path) <= set(mounted)


def test_the_pipelines_exist(deploy: Path, compose: dict[str, Any]) -> None:
    config, _ = load(deploy / "stoker.toml", environment={})
    (folder,) = config.daemon.python_path
    assert config.pipelines
    for target in config.pipelines.values():
        module, _, name = target.partition(":")
        source = (deploy / targets(compose)[folder] / f"{module}.py").read_text()
        assert re.search(rf"^@pipeline\ndef {name}\(", source, re.MULTILINE)


def test_the_memory_fits_into_the_container(deploy: Path, compose: dict[str, Any]) -> None:
    config, _ = load(deploy / "stoker.toml", environment={})
    assert compose["services"]["daemon"]["mem_limit"] == "4g"
    assert config.memory.limit <= 2 * 1024**3


def test_the_grace_ends_before_the_kill(deploy: Path, compose: dict[str, Any]) -> None:
    config, _ = load(deploy / "stoker.toml", environment={})
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(deploy / "stoker.service")
    assert config.daemon.grace_s < int(unit["Service"]["TimeoutStopSec"])
    assert config.daemon.grace_s < int(
        compose["services"]["daemon"]["stop_grace_period"].removesuffix("s")
    )


@pytest.mark.slow
def test_the_commands_have_those_options(deploy: Path, compose: dict[str, Any]) -> None:
    unit = re.search(r"^ExecStart=\S+/stoker (.*)$", (deploy / "stoker.service").read_text(), 8)
    docker = re.search(r'^CMD \["(.*)"\]$', (deploy / "Dockerfile").read_text(), re.MULTILINE)
    assert unit
    assert docker
    commands = [unit[1].split(), docker[1].split('", "')]
    commands += [compose["services"]["daemon"]["command"]]
    for command in commands:
        assert command == commands[0]
    name, *options = commands[0]
    done = subprocess.run([STOKER, name, "--help"], capture_output=True, text=True, check=True)
    assert [o for o in options if o.startswith("--") and o not in done.stdout] == []
