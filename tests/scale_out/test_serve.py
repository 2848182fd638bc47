"""`stoker.ray.serve`: daemons that Ray places and restarts, read by loaders on several nodes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import stoker.ray
from stoker.dataset import schema, write
from stoker.protocol.errors import UsageError

HERE = Path(__file__).parent
PATIENCE_S = 400
EPOCH = 8
SIDES = (512, 512)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The report of the program `scenes` on its cluster."""
    folder = tmp_path_factory.mktemp("cluster")
    values = np.random.default_rng(3).integers(0, 255, (EPOCH * 4, *SIDES), np.uint8)
    rows = [{"pixels": value, "label": number % 3} for number, value in enumerate(values)]
    write(folder / "data", [schema.array("pixels", "uint8", SIDES), schema.label()], rows)
    command = [sys.executable, str(HERE / "scenes.py"), "data", "seen.json"]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "HOME": str(folder)}
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = child.wait(PATIENCE_S)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    log_text = (folder / "log").read_text()
    assert code == 0, log_text
    return SimpleNamespace(**json.loads((folder / "seen.json").read_text()), log=log_text)


@pytest.mark.slow
def test_each_daemon_is_on_another_node(seen) -> None:
    assert len(set(seen.nodes)) == len(set(seen.pids)) == 2
    assert [address.partition("://")[0] for address in seen.addresses] == ["tcp", "tcp"]
    assert all(address in seen.repr for address in seen.addresses)


@pytest.mark.slow
def test_a_loader_in_a_task_uses_the_shared_memory_of_its_node(seen) -> None:
    digests, addresses, closing = seen.task
    assert digests == seen.alone[0]
    assert [address.partition("://")[0] for address in addresses] == ["ipc", "tcp"]
    assert closing[0] == "UsageError"
    assert "close what it returned" in closing[1]


@pytest.mark.slow
def test_no_batch_passes_through_the_object_store(seen) -> None:
    """All that the stores ever used counts, so that nothing is missed that lived for a moment.

    Batches have a mebibyte: Ray would not send as much within a message.
    """
    assert seen.batch_bytes >= 2**20
    assert seen.stored == [seen.stored_before] * (EPOCH // 4)
    assert seen.stored_after_put >= seen.stored_before + 2**20


@pytest.mark.slow
def test_killed_daemons_and_lost_nodes_change_no_byte(seen) -> None:
    """Both daemons were replaced while one loader read; four served it in turn."""
    assert len(seen.statistics) == 4
    assert all(seen.statistics.values())
    assert not {*seen.pids} & {*seen.later_pids}
    assert seen.epochs == seen.alone


@pytest.mark.slow
def test_nothing_is_left_after_close_or_the_end_of_the_program(seen) -> None:
    assert seen.left == []
    assert seen.closed[0] == "ConnectError"
    assert "ended by close()" in seen.closed[1]


@pytest.mark.slow
def test_strangers_cannot_connect_unless_insecure(seen) -> None:
    assert seen.keyless[0] in ("AccessError", "HandshakeError")  # it gives a reason, or none
    assert "requires keys" in seen.keyless[1]
    assert seen.insecure == seen.alone[0]


@pytest.mark.slow
def test_errors_name_the_node_or_what_the_nodes_have(seen) -> None:
    assert seen.missing[0] == "ConfigError"
    assert "the daemon on node" in seen.missing[1]
    assert "there is no" in seen.missing[1]
    assert seen.crowded[0] == "ResourceError"
    assert "expected 3 nodes with 1 loader, 1 CPU free" in seen.crowded[1]
    assert seen.set_hosts[0] == "UsageError"
    assert "follows a directory" in seen.set_hosts[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hosts": 0}, "hosts=0"),
        ({"hosts": 1, "workers": 0}, "workers=0"),
        ({"hosts": 1, "port": 65535}, "port=65535"),
        ({"hosts": 1, "timeout_s": 0}, "timeout_s=0"),
        ({"hosts": 1, "dataset": 5}, "expected a path, or names and paths"),
        ({"hosts": 1, "dataset": {}}, "expected a path, or names and paths"),
        ({"hosts": 1, "dataset": {"a": 5}}, "dataset['a']=5: expected a path"),
        ({"hosts": 1, "pipelines": "m:train"}, "expected names and places"),
        ({"hosts": 1, "pipelines": {"train": len}}, "Loader(daemons, pipeline=...)"),
        ({"hosts": 1, "flags": "--log-level=debug"}, "expected a list of text"),
        ({"hosts": 1, "flags": ["--tcp=tcp://0.0.0.0:1"]}, "give port="),
        ({"hosts": 1, "flags": ["--insecure"]}, "give insecure=True"),
        ({"hosts": 1, "resources": {"CPU": 2}}, "give workers="),
        ({"hosts": 1}, "ray.init"),
    ],
)
def test_arguments_are_checked_before_anything_starts(arguments, message) -> None:
    options = {"dataset": "/data", **arguments}
    with pytest.raises(UsageError) as raised:
        stoker.ray.serve(**options)
    assert message in raised.value.message


def test_without_ray_the_error_says_what_to_install(tmp_path) -> None:
    program = "import sys; sys.modules['ray'] = None\nimport stoker.ray\nstoker.ray.serve"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "pip install 'stoker[ray]'" in done.stderr
