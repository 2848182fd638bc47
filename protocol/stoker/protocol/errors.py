"""Typed errors, one class per kind of fault, that can cross the wire.

Three kinds are kept apart, because their remedies differ: a mistake of the caller (`UsageError`),
an object that its owner closed (`ClosedError`), and a fault of the other side (`PeerError`). Faults
of stored data (`DataError`) and of resources (`ResourceError`) complete the list. A message says
what was expected, what came, where, and what to change; `details` has the same facts for programs.

`to_record` and `from_record` are the wire form: a code, the message, and flat details (text,
integers, booleans and None). An unknown code becomes a plain `StokerError`, so that an old client
keeps working with a new daemon.
"""

import errno
from collections.abc import Mapping
from typing import ClassVar, Final, TypeGuard

Detail = str | int | bool | None
MORE_FILES = "ulimit -n, LimitNOFILE of systemd, --ulimit nofile of docker"
"""Where the limit on open files is set."""


class StokerError(Exception):
    """Base of every error that Stoker raises on purpose.

    Attributes:
        code: stable name of the fault, for programs and for the wire.
        details: flat facts about it, for example `{"dataset": "photos", "id": 17}`.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, /, **details: Detail) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Detail] = details

    def to_record(self) -> tuple[str, str, dict[str, Detail]]:
        """Return (code, message, details), the form that crosses the wire.

        An error class of another module travels as its nearest base from this module, because the
        other side may not have that class.
        """
        code = next(kind.code for kind in type(self).__mro__ if _is_known(kind))
        return code, self.message, dict(self.details)


class UsageError(StokerError):
    """The caller asked for something impossible: change the call."""

    code = "usage"


class ConfigError(UsageError):
    """A configuration value is unknown, of the wrong type or out of bounds."""

    code = "config"


class UnknownNameError(UsageError):
    """No dataset, pipeline, field or op has that name; the message lists the existing ones."""

    code = "unknown_name"


class BuildError(UsageError):
    """A pipeline cannot be built; the message names the user's line, op, field and the remedy."""

    code = "build"


class ResumeError(UsageError):
    """A cursor does not fit the stream; the message says what changed."""

    code = "resume"


class ClosedError(StokerError):
    """The object was used after its owner had closed it."""

    code = "closed"


class PeerError(StokerError):
    """The other side is missing, went away or broke the protocol."""

    code = "peer"


class ConnectError(PeerError):
    """Nobody answers at the address."""

    code = "connect"


class AccessError(ConnectError):
    """One side refuses the other: keys do not fit, or a process or folder is of another user."""

    code = "access"


class DaemonLostError(PeerError):
    """The daemon went away while a session was open."""

    code = "daemon_lost"


class ProtocolError(PeerError):
    """A message breaks the grammar, a bound, or the order of messages."""

    code = "protocol"


class VersionError(PeerError):
    """The two sides, or a file and its reader, speak different versions."""

    code = "version"


class DataError(StokerError):
    """Stored data cannot be used."""

    code = "data"


class DatasetError(DataError):
    """A dataset is missing, damaged, or of a newer format."""

    code = "dataset"


class SampleError(DataError):
    """One sample cannot be read, decoded or transformed; details: dataset, id, field, offset."""

    code = "sample"


class CorruptBatchError(DataError):
    """A batch is not what its workers wrote; details: epoch, step, row, rows, slot."""

    code = "corrupt_batch"


class StreamStoppedError(DataError):
    """A stream stopped for good, for example because one sample crashed two workers."""

    code = "stream_stopped"


class ResourceError(StokerError):
    """Memory or another resource is not sufficient; the message has the numbers."""

    code = "resource"


class SetupError(ResourceError):
    """A package, a permission or a limit is missing: it stays so until a person changes it."""

    code = "setup"


class TryAgainError(ResourceError):
    """The daemon has no room for another client now: connect again after a moment."""

    code = "try_again"


_LASTING: Final = frozenset(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
)


def refusal_kind(error: BaseException) -> type[ResourceError]:
    """Return the class for a refusal of the system: whether it may pass with time."""
    return SetupError if getattr(error, "errno", None) in _LASTING else ResourceError


def _is_known(kind: type) -> TypeGuard[type[StokerError]]:
    return kind.__module__ == __name__


def _by_code(base: type[StokerError]) -> dict[str, type[StokerError]]:
    found = {base.code: base}
    for sub in filter(_is_known, base.__subclasses__()):
        found.update(_by_code(sub))
    return found


def from_record(code: str, message: str, details: Mapping[str, Detail]) -> StokerError:
    """Rebuild an error from its wire form; an unknown code gives a plain `StokerError`."""
    kind = _by_code(StokerError).get(code, StokerError)
    return kind(message, **details)
