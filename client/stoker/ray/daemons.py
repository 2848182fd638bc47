"""`Daemons`: where the daemons of a Ray cluster are, for the loaders of all its nodes.

It can be sent to tasks, actors and trainers of Ray; each copy asks the actors itself. Only the one
that `serve` returned ends them.
"""

import logging
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Final

import ray
from stoker.client import Directory
from stoker.protocol.errors import ConnectError, UsageError, from_record
from stoker.protocol.remote.keys import public_text
from stoker.ray.key_files import ServeKeys, path_of, secret_file
from stoker.ray.node_actor import RunningDaemon

ASK_S: Final = 5.0
END_S: Final = 20.0
_log = logging.getLogger("stoker.client")


class Daemons(Directory):
    """The daemons of one `serve`: `Loader(daemons, ...)` reads from all of them.

    A loader on the node of a daemon uses its `ipc://` address, which shares memory; the others use
    `tcp://`.
    """

    pause_s = 2.0

    def __init__(self, hosts: Sequence[Any], keys: ServeKeys | None, group: Any = None) -> None:
        """Name the daemons.

        Args:
            hosts: handles of their actors (`NodeActor`).
            keys: None: they listen without keys.
            group: their placement group; None: this is a copy, which does not end them.
        """
        self._hosts, self._keys, self._group = list(hosts), keys, group
        self._lock = threading.Lock()
        self._asked: dict[int, Any] = {}
        self._known: dict[int, RunningDaemon] = {}
        self._faults: dict[int, str] = {}
        if keys is not None:
            file = secret_file(keys.loaders)
            weakref.finalize(self, os.close, file)
            self.key, self.daemon_key = path_of(file), public_text(keys.daemons.public)

    def addresses(self) -> list[str]:
        """Return the addresses of the daemons that run, as a loader of this process uses them.

        Raises:
            ConnectError: none runs, or Ray does not answer.
        """
        _check_connected()  # first: any other call would connect
        here = str(ray.get_runtime_context().get_node_id())
        found = [_address(place, here) for place in self.places()]
        if not self._hosts:
            raise ConnectError("these daemons were ended by close(); call stoker.ray.serve() again")
        if not found:
            raise ConnectError(
                f"none of the {len(self._hosts)} daemons runs now"
                + "".join(f"; {fault}" for fault in self._faults.values())
            )
        return found

    def places(self) -> list[RunningDaemon]:
        """Return the node, process and addresses of each daemon that runs.

        A daemon whose actor is slow to answer is where it was.

        Raises:
            ConnectError: this process is not connected to Ray.
        """
        _check_connected()
        with self._lock:
            for number, host in enumerate(self._hosts):
                if number not in self._asked:
                    self._asked[number] = host.where.remote()
            asked = list(self._asked.values())
            ready, _ = ray.wait(asked, num_returns=len(asked), timeout=ASK_S)
            for number, answer in list(self._asked.items()):
                if answer in ready:
                    del self._asked[number]
                    self._receive(number, answer)
            return [self._known[number] for number in sorted(self._known)]

    def close(self) -> None:
        """End the daemons and give their places back to Ray; a second call does nothing.

        Raises:
            UsageError: this is a copy of what `serve` returned.
        """
        if self._group is None and self._hosts:
            raise UsageError(
                "these daemons belong to the process that called stoker.ray.serve(), and end there:"
                " close what it returned"
            )
        with self._lock:
            hosts, self._hosts = self._hosts, []
            self._asked, self._known = {}, {}
        if not hosts or not ray.is_initialized():
            return
        ends = [host.end.remote() for host in hosts]
        ray.wait(ends, num_returns=len(ends), timeout=END_S)
        for host in hosts:
            ray.kill(host)
        ray.util.remove_placement_group(self._group)

    def __enter__(self) -> "Daemons":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes a copy in another process, which does not end the daemons."""
        return Daemons, (self._hosts, self._keys)

    def __repr__(self) -> str:
        where = ", ".join(f"{place.remote} (node {place.ip})" for place in self._known.values())
        return f"Daemons({where})"

    def _receive(self, number: int, answer: Any) -> None:
        """Take an actor's answer; one that is gone, or restarts, has no daemon."""
        try:
            place: RunningDaemon = ray.get(answer)
        except ray.exceptions.RayError as error:
            self._known.pop(number, None)
            first = (str(error).strip().splitlines() or [""])[0]
            self._report(number, f"daemon {number}: {type(error).__name__}: {first}")
            return
        if place.error is not None:
            self._known.pop(number, None)
            message = from_record(*place.error).message
            self._report(number, f"daemon {number} on node {place.ip} cannot start: {message}")
            return
        self._known[number] = place
        self._faults.pop(number, None)

    def _report(self, number: int, fault: str) -> None:
        if self._faults.get(number) != fault:
            _log.warning("%s", fault)
        self._faults[number] = fault


def _check_connected() -> None:
    if not ray.is_initialized():
        raise ConnectError("this process is not connected to Ray; call ray.init(...) first")


def _address(place: RunningDaemon, here: str) -> str:
    """Return the address for a loader on a node.

    A loader in a container of its own has the node's id without its files.
    """
    shared = place.node == here and os.path.exists(place.local.removeprefix("ipc://"))
    return place.local if shared else place.remote
