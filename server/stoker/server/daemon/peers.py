"""What the daemon itself knows of a client: from the kernel, or from its key and address.

libzmq asks the kernel for the process and user of each connection on this host (SO_PEERCRED), when
it accepts it, and shows them as `NAME:USER:GROUP:PROCESS`; that of another host is its address.
Names of users are looked up once, at start, because a directory service can take seconds.
"""

import os
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from stoker.protocol.messages import Hello
from stoker.protocol.users import user_name
from stoker.server.state.clients import Client, claimed, harmless

_LOCAL: Final = re.compile(r":(\d+):(\d+):(\d+)\Z")


class Peers:
    """Describes clients; made once, at start."""

    def __init__(self) -> None:
        self._names: Mapping[int, str] = {
            number: harmless(user_name(number)) for number in {0, os.geteuid()}
        }

    def of(self, hello: Hello, address: str, key: str | None = None) -> Client:
        """Return the client that sent a HELLO.

        Args:
            hello: what it says.
            address: what libzmq says about its connection.
            key: the name of the key that it has shown; None: none was asked for.
        """
        client = claimed(hello)
        found = _LOCAL.search(address)
        if found is None:
            known = harmless(address) if key is None else harmless(f"{address}, key {key}")
            return msgspec.structs.replace(client, known_from=known)
        user, process = int(found[1]), int(found[3])
        return msgspec.structs.replace(
            client,
            pid=process or client.pid,  # 0: it is in a namespace that the daemon cannot see
            user=self.user(user),
            known_from="kernel" if process else "kernel, user",
            owns=user in self._names,
        )

    def user(self, number: int) -> str:
        """Return the name of a user, or its number if the name is not known without a look-up."""
        return self._names.get(number, str(number))
