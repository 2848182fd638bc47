"""compose.yaml: valid by the Compose Specification's schema, and true to the repository."""

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema import main as checker
from click.testing import CliRunner, Result
from user_folders import importing_from

MADE_BY_DEMO = {"demo"}


def check(path: Path) -> Result:
    return CliRunner().invoke(checker, ["--builtin-schema", "vendor.compose-spec", str(path)])


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Target -> source of each volume; defaults of variables filled in."""
    found = {}
    for text in service["volumes"]:
        plain = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
        source, target = plain.split(":")[:2]
        found[target] = source
    return found


@pytest.mark.slow
def test_it_is_valid_by_the_schema(deploy: Path) -> None:
    done = check(deploy / "compose.yaml")
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_the_schema_refuses_what_is_wrong(compose: dict[str, Any], tmp_path: Path) -> None:
    wrong = {**compose, "services": {"daemon": {**compose["services"]["daemon"], "imagee": "x"}}}
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(wrong))
    done = check(tmp_path / "compose.yaml")
    assert done.exit_code == 1
    assert "imagee" in done.output


def test_the_containers_share_only_the_socket(compose: dict[str, Any]) -> None:
    daemon, trainer = compose["services"]["daemon"], compose["services"]["trainer"]
    named = [{s for s in mounts(service).values() if "/" not in s} for service in (daemon, trainer)]
    assert named[0] & named[1] == {"socket"}
    assert set(compose["volumes"]) == named[0] | named[1] | {"prometheus"}
    for service in (daemon, trainer):
        assert mounts(service)["/run/stoker"] == "socket"
        assert not {"ipc", "shm_size", "pid", "privileged"} & set(service)
        assert service["read_only"] is True
        assert service["user"] == "10001:10001"
    assert trainer["network_mode"] == "none"


def test_the_daemon_reaches_no_other_network(compose: dict[str, Any]) -> None:
    assert compose["services"]["daemon"]["networks"] == ["metrics"]
    assert compose["networks"]["metrics"] == {"internal": True}
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_what_is_mounted_exists(compose: dict[str, Any], deploy: Path) -> None:
    for service in compose["services"].values():
        for source in (s for s in mounts(service).values() if s.startswith(".")):
            path = (deploy / source).resolve()
            assert path.exists() or path.name in MADE_BY_DEMO, source


def test_what_is_built_exists(compose: dict[str, Any], deploy: Path) -> None:
    stages = re.findall(r"^FROM \S+ AS (\w+)$", (deploy / "Dockerfile").read_text(), re.MULTILINE)
    for name in ("daemon", "trainer"):
        service = compose["services"][name]
        context = deploy / service["build"]["context"]
        assert (context / service["build"]["dockerfile"]).is_file()
        assert service["build"]["target"] in stages


def test_the_dockerfile_copies_what_exists(deploy: Path) -> None:
    text = (deploy / "Dockerfile").read_text()
    copied = [line.split()[1:-1] for line in text.splitlines() if re.match(r"COPY (?!--)", line)]
    assert copied
    assert [n for names in copied for n in names if not (deploy.parent / n).exists()] == []
    assert not re.search(r"^USER (root|0)\b", text, re.MULTILINE)
    assert text.count("\nUSER stoker\n") == 2
    assert "--uid 10001" in text


@pytest.mark.slow
def test_the_trainer_has_those_options(
    compose: dict[str, Any], deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, address, *options = compose["services"]["trainer"]["command"]
    source = mounts(compose["services"]["trainer"])[str(Path(script).parent)]
    file = deploy / source / Path(script).name
    with importing_from(file.parent), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(file), "--help"])
        with pytest.raises(SystemExit) as ended:  # in this process: PyTorch takes long to import
            runpy.run_path(str(file), run_name="__main__")
    sys.modules.pop("network")  # of that folder
    told = capsys.readouterr().out
    assert not ended.value.code
    assert address == "ipc:///run/stoker/stoker.sock"
    assert [o for o in options if o.split("=")[0] not in told] == []


def test_the_health_check_asks_the_metrics_endpoint(compose: dict[str, Any], deploy: Path) -> None:
    test = compose["services"]["daemon"]["healthcheck"]["test"]
    compile(test[-1], "healthcheck", "exec")
    assert 'address = "127.0.0.1:9471"' in (deploy / "stoker.toml").read_text()
    assert "http://127.0.0.1:9471/readyz" in test[-1]
