"""The manifests for Kubernetes: valid by its schemas, and true to the repository."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from users import VICTIM, as_user, shared_folder, why_none

from stoker.server.settings.config_loading import load
from stoker.server.settings.config_types import Config

FOLDERS = ("base", "sidecar")
NOT_HERE = {"stoker-keys", "stoker-pipelines", "stoker-data"}
"""What an overlay brings."""


def documents(folder: Path) -> list[dict[str, Any]]:
    """What the kustomization lists."""
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [one for name in listed for one in yaml.safe_load_all((folder / name).read_text())]


@pytest.fixture(params=FOLDERS)
def folder(deploy: Path, request: pytest.FixtureRequest) -> Path:
    return deploy / "kubernetes" / str(request.param)


@pytest.fixture
def pod(folder: Path) -> dict[str, Any]:
    """The template of the pod with the daemon."""
    (found,) = [one for one in documents(folder) if "template" in one.get("spec", {})]
    return dict(found["spec"]["template"]["spec"])


@pytest.fixture
def daemon(pod: dict[str, Any]) -> dict[str, Any]:
    every = [*pod["containers"], *pod.get("initContainers", ())]
    (found,) = [one for one in every if one["name"] == "daemon"]
    return dict(found)


@pytest.fixture
def config(folder: Path) -> Config:
    found: Config = load(folder / "stoker.toml", environment={}).config
    return found


def test_they_are_valid_by_the_schemas(folder: Path) -> None:
    for one in documents(folder):
        kubernetes_validate.validate(one, "1.37", strict=True)


def test_the_schemas_refuse_what_is_wrong(folder: Path) -> None:
    for one in documents(folder):
        with pytest.raises(kubernetes_validate.ValidationError, match="speck"):
            kubernetes_validate.validate({**one, "speck": {}}, "1.37", strict=True)


def test_every_file_is_used(folder: Path) -> None:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    (generated,) = kustomization["configMapGenerator"]
    used = {"kustomization.yaml", *kustomization["resources"], *generated["files"]}
    assert {path.name for path in folder.iterdir()} == used


def test_every_volume_exists(folder: Path, pod: dict[str, Any]) -> None:
    (stateful,) = [one for one in documents(folder) if "template" in one.get("spec", {})]
    claimed = [t["metadata"]["name"] for t in stateful["spec"].get("volumeClaimTemplates", ())]
    volumes = {volume["name"] for volume in pod["volumes"]} | set(claimed)
    for container in [*pod["containers"], *pod.get("initContainers", ())]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    text = yaml.safe_dump(pod["volumes"])
    named = set(re.findall(r"(?:secretName|claimName): (\S+)|configMap:\n\s+name: (\S+)", text))
    (generated,) = yaml.safe_load((folder / "kustomization.yaml").read_text())["configMapGenerator"]
    assert {one or other for one, other in named} <= {*NOT_HERE, generated["name"]}


def test_the_configuration_fits_the_pod(
    config: Config, pod: dict[str, Any], daemon: dict[str, Any]
) -> None:
    mounted = {mount["mountPath"] for mount in daemon["volumeMounts"]}
    read = [*config.datasets.values(), *config.daemon.python_path]
    read += [name for name in (config.daemon.key, config.daemon.clients) if name]
    written = [config.daemon.cache_root, config.daemon.address.removeprefix("ipc://")]
    for path in [*read, *written]:
        assert any(path == mount or path.startswith(f"{mount}/") for mount in mounted), path
    ports = {port["name"]: port["containerPort"] for port in daemon["ports"]}
    assert ports.pop("metrics") == int(config.metrics.address.rpartition(":")[2])
    tcp = int(config.daemon.tcp.rpartition(":")[2]) if config.daemon.tcp else None
    assert ports == ({} if tcp is None else {"messages": tcp, "batches": tcp + 1})
    assert config.daemon.grace_s < pod["terminationGracePeriodSeconds"]
    assert daemon["resources"]["limits"]["memory"] == "8Gi"
    assert config.memory.limit <= 4 * 1024**3


def test_service_and_policy_have_the_ports(deploy: Path) -> None:
    by_kind = {one["kind"]: one["spec"] for one in documents(deploy / "kubernetes" / "base")}
    template = by_kind["StatefulSet"]["template"]["spec"]
    ports = [port["containerPort"] for port in template["containers"][0]["ports"]]
    served = [port["port"] for port in by_kind["Service"]["ports"]]
    allowed = [p["port"] for rule in by_kind["NetworkPolicy"]["ingress"] for p in rule["ports"]]
    assert [*served, 9471] == allowed == ports
    assert by_kind["StatefulSet"]["serviceName"] == "stoker"


def test_containers_have_few_rights(pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*pod["containers"], *pod.get("initContainers", ())]:
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.slow
@pytest.mark.as_a_user
@pytest.mark.skipif(bool(why_none()), reason=why_none() or "users")
def test_a_volume_inside_of_a_private_folder_keeps_kernels() -> None:
    """Kubernetes makes volumes of mode 2777; the image has the folder around it, of mode 0700."""
    code = "import sys; from pathlib import Path; from stoker.jit.cacheroot import open_root\n"
    code += "open_root(Path(sys.argv[1])).__exit__()"
    for mode, kept in ((0o700, True), (0o755, False)):
        with shared_folder() as base:
            volume = base / "around" / "volume"
            volume.mkdir(parents=True)
            subprocess.run(["chown", f"{VICTIM}:{VICTIM}", volume.parent], check=True)
            volume.parent.chmod(mode)
            volume.chmod(0o2777)
            command = [*as_user(VICTIM), sys.executable, "-P", "-c", code, f"{volume}/kernels"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
            assert (done.returncode == 0) is kept, done.stderr
