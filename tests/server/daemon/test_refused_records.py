"""Records that the protocol's page promises to refuse, sent to a daemon by hand."""

import socket

import msgpack
import pytest

from stoker.protocol import messages
from stoker.server.daemon.remote import carriers

WRONG = [
    (["seek_everything", 1], "message out of bounds: Invalid value 'seek_everything'"),
    (["seek", 1, 0], "message out of bounds: Expected `array` of at least length 4, got 3"),
    (["seek", "1", 0, 0], "message out of bounds: Expected `int`, got `str`"),
    (["seek", 1, -1, 0], "message out of bounds: Expected `int` >= 0"),
    (["seek", 1, 0, 2**63], "message out of bounds: Expected `int` <= "),
    (
        ["seek", 1, 0, msgpack.ExtType(5, b"12345678")],
        "expected a msgpack message: 9 exceeds max_ext",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_a_wrong_record_refuses_the_whole_message(connect, wrong, message):
    client = connect().hello().attach()
    client.open()
    good = [["seek", 1, 0, 0], ["credit", 1, 1]]
    client.dealer.send(msgpack.packb([1, client.token, [*good, wrong]]))
    error = client.receive(messages.Error)
    assert error.code == "protocol"
    assert error.message.startswith(message)
    client.send(messages.Seek(1, 0, 1), messages.Credit(1, 1))  # run 1 has not begun
    assert client.receive(messages.Ready).step == 1


@pytest.mark.parametrize(
    ("order", "code", "message"),
    [
        (
            {"reverse": True},
            "protocol",
            "message out of bounds: Object contains unknown field `rev",
        ),
        (
            {"shuffle": False, "block": 8},
            "usage",
            "open: order.block and order.shuffle=false cannot be combined, because",
        ),
    ],
)
def test_an_option_that_is_unknown_or_excludes_another(connect, order, code, message):
    client = connect().hello().attach()
    stream = {
        "sources": [{"dataset": "photos", "pipeline": "train"}],
        "batch": {"positions": 10},
        "order": order,
    }
    asked = ["open", 1, stream, {"prefetch": 2, "leases": 1}]
    client.dealer.send(msgpack.packb([1, client.token, [asked]]))
    error = client.receive(messages.Error)
    assert error.code == code
    assert error.message.startswith(message)


def test_a_carrier_that_says_nothing_is_refused(start, monkeypatch):
    monkeypatch.setattr(carriers, "ATTACH_DEADLINE_S", 0.2)
    running = start(daemon__tcp="tcp://127.0.0.1:0", daemon__insecure=True)
    port = int(running.daemon.tcp_address.rpartition(":")[2]) + 1
    with socket.create_connection(("127.0.0.1", port), timeout=20) as carrier:
        said = b""
        while part := carrier.recv(4096):
            said += part
    assert b"expected Attach with a token within 0.2 s of connecting" in said
