"""A fault in the thread of a carrier is counted, and ends its session alone."""

import select
import socket
import time

from stoker.protocol import messages
from stoker.protocol.remote.tcp import frame
from stoker.server.daemon.guard import Guard
from stoker.server.daemon.remote.carriers import Carriers

DEADLINE_S = 30.0
TOKENS = bytes(16), bytes([1] * 16)


def test_a_fault_of_a_carrier_is_counted_and_ends_it_alone() -> None:
    guard, up, down = Guard(time.monotonic), [], []
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    carriers = Carriers(
        listener, up.append, down.append, lambda *_: None, time.monotonic, lambda: True, guard.note
    )
    clients = [socket.create_connection(listener.getsockname()) for _ in TOKENS]

    def turn_until(done) -> None:
        end = time.monotonic() + DEADLINE_S
        while not done():
            poll = select.poll()
            for descriptor in carriers.descriptors():
                poll.register(descriptor, select.POLLIN)
            for descriptor, _ in poll.poll(1000):
                if descriptor in carriers.descriptors():
                    carriers.descriptors()[descriptor]()
            assert time.monotonic() < end

    def fail() -> None:
        raise ZeroDivisionError

    try:
        for token, client in zip(TOKENS, clients, strict=True):
            carriers.expect(token, b"")
            client.sendall(frame(messages.Attach(token)))
        turn_until(lambda: len(up) == len(TOKENS))
        carriers._carriers[TOKENS[0]]._jobs.put(fail)
        turn_until(lambda: down)
        assert (down, guard.errors) == ([TOKENS[0]], 1)
        assert TOKENS[1] in carriers
    finally:
        carriers.close()
        for sock in (listener, *clients):
            sock.close()
