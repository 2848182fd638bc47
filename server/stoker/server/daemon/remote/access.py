"""Access to the TCP address: the daemon's key, and the list of clients that may connect.

The list is read when the daemon starts, and again at SIGHUP. A list that cannot be read then leaves
the old one in force. It is replaced as a whole, so any thread may ask `name_of`.
"""

import os
from collections.abc import Mapping

import zmq
from zmq.utils import z85

from stoker.protocol.errors import AccessError, ConfigError
from stoker.protocol.remote.keys import public_text, read_clients, read_secret_file
from stoker.server.settings import logs
from stoker.server.settings.config_types import DaemonSection


class Access:
    """The daemon's key and the clients that it lets in.

    Attributes:
        public, secret: the daemon's key.
    """

    def __init__(self, key: str, clients: str) -> None:
        """Read both files.

        Args:
            key: path of the daemon's secret key.
            clients: path of the list of clients.

        Raises:
            ConfigError: as `read_secret_file` and `read_clients`.
        """
        self.secret = read_secret_file(key, "daemon.key")
        self.public = z85.decode(zmq.curve_public(z85.encode(self.secret)))
        self._path = clients
        self._names: Mapping[bytes, str] = read_clients(clients, "daemon.clients")

    def __len__(self) -> int:
        """Return the number of clients in the list."""
        return len(self._names)

    def name_of(self, key: bytes) -> str | None:
        """Return the name of the client with a public key; None: it is not in the list."""
        return self._names.get(key)

    def allows(self, key: str) -> bool:
        """Return whether the client with a public key (hex) may connect."""
        return bytes.fromhex(key) in self._names

    def reread(self) -> None:
        """Read the list of clients again."""
        try:
            self._names = read_clients(self._path, "daemon.clients")
        except ConfigError as error:
            logs.log("error", "clients_not_reread", reason=error.message, kept=len(self))
            return
        logs.log("info" if self._names else "warning", "clients_reread", clients=len(self))

    def removed(self) -> AccessError:
        """Return the error for a client whose key was in the list."""
        return AccessError(
            "the daemon removed this client's key from its list of clients; ask its operator, or"
            " use another key"
        )

    def facts(self) -> dict[str, str | int]:
        """Return what the log says at start."""
        return {"key": public_text(self.public), "clients": len(self)}


def access_of(settings: DaemonSection) -> Access | None:
    """Read the keys that the configuration names; None if the address needs none.

    Raises:
        ConfigError: flags that do not go together, or a file that cannot be used.
    """
    if not settings.tcp:
        for name in ("insecure", "key", "clients"):
            if getattr(settings, name):
                raise ConfigError(
                    f"daemon.{name}: expected an address for other hosts with it, got none; add"
                    f" --tcp tcp://HOST:PORT, or leave --{name} out",
                    key=f"daemon.{name}",
                )
        return None
    if settings.insecure and (settings.key or settings.clients):
        raise ConfigError(
            "daemon.insecure: expected either keys (--key, --clients) or no protection"
            " (--insecure), got both; leave --insecure out",
            key="daemon.insecure",
        )
    if bool(settings.key) != bool(settings.clients):
        got, missing = ("key", "clients") if settings.key else ("clients", "key")
        raise ConfigError(
            f"daemon.{got}: expected --key and --clients together, got --{got} alone; add"
            f" --{missing} FILE"
            + (" with the public keys of those who may connect" if missing == "clients" else ""),
            key=f"daemon.{got}",
        )
    return Access(os.fspath(settings.key), settings.clients) if settings.key else None
