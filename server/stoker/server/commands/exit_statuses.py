"""Exit statuses of all commands: which kind of error ends a command with which number.

Scripts and supervisors decide by them: start again, or wait for a person. The numbers above 2 are
those of sysexits.h and of shells. docs/operations.md has the table; a test compares the two.
"""

from typing import Final

from stoker.protocol.errors import (
    AccessError,
    BuildError,
    ConfigError,
    PeerError,
    ProtocolError,
    ResourceError,
    ResumeError,
    SetupError,
    StokerError,
    UsageError,
    VersionError,
)

FAILED: Final = 1
"""It cannot be done, or what was checked is bad."""
USAGE: Final = 2
"""The command line asks for something impossible."""
TRY_AGAIN: Final = 75
"""A daemon, a port, memory or another resource is not there now: EX_TEMPFAIL."""
CONFIGURATION: Final = 78
"""A value of the configuration is wrong, from whatever source: EX_CONFIG."""
INTERRUPTED: Final = 130
"""SIGINT came, as shells say it."""

_BY_KIND: Final[dict[type, int]] = {
    StokerError: FAILED,
    UsageError: USAGE,
    ConfigError: CONFIGURATION,
    BuildError: FAILED,
    ResumeError: FAILED,
    ResourceError: TRY_AGAIN,
    SetupError: FAILED,
    PeerError: TRY_AGAIN,
    AccessError: FAILED,
    ProtocolError: FAILED,
    VersionError: FAILED,
}
"""Kind of error -> status, also of the kinds below it that are not listed."""


def status_of(error: StokerError) -> int:
    """Return the exit status of a command that an error ended."""
    return next(_BY_KIND[kind] for kind in type(error).__mro__ if kind in _BY_KIND)
