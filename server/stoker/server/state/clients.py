"""Who a client is: what the daemon knows of it, and what it says of itself, for logs.

`facts` has the one form in which each log line names a client. Text that came from outside is
printable and short, so it can neither tear a line nor fill the log.
"""

import msgspec

from stoker.protocol.messages import Hello
from stoker.protocol.request.argument_checks import MAX_LABEL

SHORT_ID = 8
"""Characters of a stream id in the lines."""
UNKNOWN = "-"


class Client(msgspec.Struct, frozen=True):
    """A client.

    Attributes:
        name: what its caller calls it; or empty.
        host: the name of its host, as it says itself.
        pid: its process.
        user: its user.
        known_from: how the daemon knows: "kernel" for the process and the user, "kernel, user" for
            the user alone; otherwise the address of the other host, with the name of the key that
            was shown, and then process and user are what the client says. Empty: nothing is known.
        release: of its Stoker, as it says itself.
        owns: whether the kernel says that its user is that of the daemon, or root.
    """

    name: str = ""
    host: str = ""
    pid: int = 0
    user: str = ""
    known_from: str = ""
    release: str = ""
    owns: bool = False

    def facts(self, dataset: str = "", stream: str = "") -> dict[str, object]:
        """Return what a log line says about it.

        Args:
            dataset: the name of the dataset that it reads; or empty.
            stream: the id of its stream; or empty.
        """
        return {
            "client": self.name or UNKNOWN,
            "host": self.host or UNKNOWN,
            "pid": self.pid,
            "user": self.user or UNKNOWN,
            "known_from": self.known_from or UNKNOWN,
            "dataset": dataset or UNKNOWN,
            "stream": stream[:SHORT_ID] or UNKNOWN,
        }


def claimed(hello: Hello) -> Client:
    """Return a client of which nothing is known but what it says."""
    return Client(
        name=harmless(hello.name),
        host=harmless(hello.host),
        pid=hello.pid,
        user=harmless(hello.user),
        release=harmless(hello.client),
    )


def harmless(text: str) -> str:
    """Return a text from outside with at most `MAX_LABEL` characters, all printable."""
    return "".join(one if one.isprintable() else "?" for one in text[:MAX_LABEL])
