"""Reports a failing ZeroMQ connection as an error at once, instead of silence until a deadline.

libzmq tries again for ever when the other side refuses it. After a cut it connects again by itself,
but the daemon no longer knows the session. Both are reported on a monitor socket. Runs in the
caller's thread.
"""

import struct
from typing import Any, Final

import zmq

from stoker.client.remote.loader_keys import Keys
from stoker.protocol.errors import AccessError
from stoker.protocol.remote.keys import public_text

_REPORT: Final = struct.Struct("=Hi")  # event, value; the endpoint is a second frame
_CLOSED: Final = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
_PROTOCOL: Final = int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
_REFUSED: Final = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
_CUT: Final = int(zmq.EVENT_DISCONNECTED)
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)
_TRIES: Final = 3
"""Attempts that end without a reason; a daemon that is starting or stopping ends fewer."""


class HandshakeError(AccessError):
    """The other side ends handshakes without a reason.

    Its key is another one, it is not a daemon, or it passes connections to a daemon that has died.
    """


class SocketWatch:
    """The reports on one DEALER socket, which is not connected yet.

    Attributes:
        socket: readable when there is a report.
    """

    def __init__(self, dealer: "zmq.Socket[bytes]", address: str, keys: Keys | None) -> None:
        self._dealer = dealer
        self._address = address
        self._keys = keys
        self._failures = 0
        self.socket: Any = dealer.get_monitor_socket(_CLOSED | _PROTOCOL | _REFUSED | _CUT)

    def check(self) -> bool:
        """Read the reports up to a cut; return whether there was one.

        The reports after it are about the connections that ZeroMQ makes by itself from then on.
        They are of no use to the session, and may stay unread.

        Raises:
            AccessError: the two sides do not agree; the message says what to change.
            HandshakeError: the other side gives no reason.
        """
        while int(self.socket.getsockopt(_EVENTS)) & _POLLIN:
            event, _ = _REPORT.unpack(self.socket.recv_multipart()[0])
            if event == _CUT:
                return True
            self._failures += 1
            if event == _REFUSED:
                raise self._error(self._not_in_list())
            if event == _PROTOCOL:
                raise self._error(self._mismatch())
            if self._failures >= _TRIES:
                raise self._error(self._no_reason(), HandshakeError)
        return False

    def _error(self, why: str, kind: type[AccessError] = AccessError) -> AccessError:
        return kind(f"the daemon at {self._address} {why}", address=self._address)

    def _not_in_list(self) -> str:
        assert self._keys is not None  # only CURVE asks
        return (
            "does not let this client in: its list of clients lacks"
            f" {public_text(self._keys.public)}. Add this key and a name to the file of"
            " `stoker serve --clients`, and send the daemon SIGHUP"
        )

    def _mismatch(self) -> str:
        if self._keys is None:
            return (
                "requires keys: give the Loader connection=Connection(key=, daemon_key=), with this"
                " client's secret key file and the daemon's public key"
            )
        return (
            "has no keys (it was started with --insecure), but this client expects some: start it"
            " with --key and --clients, or leave key= and daemon_key= out, and unset"
            " STOKER_CLIENT_KEY and STOKER_CLIENT_DAEMON_KEY"
        )

    def _no_reason(self) -> str:
        if self._keys is None:
            return "ends the handshake: it requires keys (key=, daemon_key=), or is not a daemon"
        return (
            f"ends the handshake: its key is not {public_text(self._keys.daemon)}; compare"
            " daemon_key= with the key in its log (listening_tcp). Or it is not a daemon of Stoker"
        )
