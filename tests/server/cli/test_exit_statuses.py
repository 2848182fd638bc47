"""Each exit status by a command that ends with it; docs/operations.md lists all with errors."""

import re
import signal
import socket
from pathlib import Path

import pytest
from commands import call

from stoker.ops.contract.states import ParameterError
from stoker.protocol.errors import StokerError, _by_code
from stoker.server.commands.exit_statuses import status_of
from stoker.server.daemon.guard import EXIT_CODE

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


def table() -> dict[int, set[str]]:
    """Status -> the errors that end with it, as the page says."""
    text = re.search(r"^## Exit statuses$(.*?)^## ", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    found = re.findall(r"^\| (\d+) \| .* \|([^|]*)\|$", text, re.MULTILINE)
    return {int(status): set(re.findall(r"`(\w+)`", errors)) for status, errors in found}


def test_the_page_lists_each_error_with_its_status() -> None:
    listed = table()
    assert set(listed) == {0, 1, 2, EXIT_CODE, 75, 78, 128 + signal.SIGINT}
    kinds = _by_code(StokerError).values()
    assert sum(map(len, listed.values())) == len(kinds)
    for kind in kinds:
        assert kind.__name__ in listed[status_of(kind("message"))], kind


def test_an_error_of_another_package_has_the_status_of_its_kind() -> None:
    assert status_of(ParameterError("message")) == 1


@pytest.mark.parametrize(
    ("status", "arguments"),
    [
        (0, ["--version"]),
        (1, ["ls", "/nowhere"]),
        (1, ["explain", "json:loads", "/nowhere"]),
        (2, ["nonsense"]),
        (2, ["serve", "--dataset=photos"]),
        (2, ["bench", "json:loads"]),
        (75, ["status", "ipc:///nowhere/stoker.sock"]),
        (78, ["config", "--config=/nowhere.toml"]),
        (78, ["serve", "--dataset=photos=/nowhere"]),
        (78, ["serve", "--workers=0"]),
    ],
)
def test_each_status(status: int, arguments: list[str]) -> None:
    code, _, errors = call(*arguments, NO_COLOR="1", COLUMNS="200", TERM="dumb")
    assert code == status, errors
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "code", "status"),
    [("/etc/passwd", "setup", 1), ("/proc/nothing", "resource", 75)],
)
def test_a_folder_that_may_come_is_to_be_tried_again(serve, place, code, status) -> None:
    """Nothing but a person makes a folder of a file; a folder that is not there may be mounted."""
    served = serve(f"--address=ipc://{place}/stoker.sock", warm=True)
    assert served.ready["error"][0] == code
    assert "choose a writable folder" in served.ready["error"][1]
    assert served.wait() == status


@pytest.mark.slow
def test_a_port_that_is_taken_is_to_be_tried_again(serve) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for flags in ([f"--metrics-address={port}"], [f"--tcp=tcp://127.0.0.1:{port}"]):
            served = serve(*flags, "--insecure" if "tcp" in flags[0] else "--workers=1", warm=True)
            assert served.ready["error"][0] == "resource"
            assert served.wait() == 75
            assert served.log.read_text().count("\n") == 1
