"""The actor of a node: it starts the node's daemon, and says where it listens.

Runs in a worker process of Ray. Actor and daemon share their fate: if the daemon ends by itself,
the actor exits and Ray starts it again, on this node or, if that is gone, on another; if the actor
dies, the kernel kills the daemon. A daemon that cannot start (no such dataset on the node) does not
end the actor: `where` returns the error, and tries again after `RETRY_S`.
"""

import os
import threading
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

import ray
from stoker.protocol.errors import ConnectError, Detail, StokerError
from stoker.protocol.remote.tcp import TcpAddress
from stoker.ray.key_files import ServeKeys
from stoker.ray.node_daemon import NodeDaemon

RETRY_S: Final = 10.0
DAEMON_ENDED: Final = 3
"""Exit code of an actor whose daemon ended."""


class ServeSettings(NamedTuple):
    """Settings that all daemons of one `serve` share.

    Attributes:
        flags: of `stoker serve`, except those of addresses and keys.
        port: of the TCP address; 0: a free one.
        keys: None: none are used, and everyone who reaches the port may connect.
        start_s: how long a daemon may take to start.
    """

    flags: tuple[str, ...]
    port: int
    keys: ServeKeys | None
    start_s: float


class RunningDaemon(NamedTuple):
    """The address of a running daemon, or the reason why it does not run.

    Attributes:
        node: id of the node in Ray.
        ip: the node's address.
        pid: the daemon's process id.
        local: its address on the node; empty: there is no daemon.
        remote: its address for other nodes.
        error: code, message and details of a StokerError.
    """

    node: str
    ip: str
    pid: int = 0
    local: str = ""
    remote: str = ""
    error: tuple[str, str, Mapping[str, Detail]] | None = None


class NodeActor:
    """One node's actor."""

    def __init__(self, plan: ServeSettings) -> None:
        self._plan = plan
        self._node = str(ray.get_runtime_context().get_node_id())
        self._ip = str(ray.util.get_node_ip_address())
        self._daemon: NodeDaemon | None = None
        self._error: StokerError | None = None
        self._tried = 0.0
        self._ended = False
        self._start()

    def where(self) -> RunningDaemon:
        """Return where the daemon listens; starts it if it could not start before."""
        if self._daemon is None and not self._ended and time.monotonic() > self._tried + RETRY_S:
            self._start()
        if self._daemon is None:
            error = self._error or ConnectError("the daemon was ended")
            return RunningDaemon(self._node, self._ip, error=error.to_record())
        found = self._daemon
        return RunningDaemon(self._node, self._ip, found.pid, found.local, found.remote)

    def end(self) -> None:
        """End the daemon in good order; the actor starts no other."""
        self._ended = True
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            daemon.close()

    def _start(self) -> None:
        plan = self._plan
        self._tried = time.monotonic()
        try:
            at = TcpAddress(self._ip, plan.port)
            self._daemon = NodeDaemon(at, plan.flags, plan.keys, plan.start_s)
        except StokerError as error:
            self._error = error
            return
        watch = threading.Thread(target=self._watch, args=[self._daemon], daemon=True)
        watch.start()

    def _watch(self, daemon: NodeDaemon) -> None:
        """Exit with the daemon; runs in a thread."""
        daemon.wait()
        if not self._ended:
            daemon.remove_folder()
            os._exit(DAEMON_ENDED)
