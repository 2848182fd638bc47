"""`stoker`: the command line, also `python -m stoker` and `python -m stoker.server`.

A command's module is imported when the command is used, so `stoker --help` is quick and a missing
optional dependency hurts only the commands that need it. Every `StokerError` becomes one line on
standard error and the exit status of its kind (`commands.exit_statuses`), and so does a file that
the system refuses, standard output included; a traceback is a bug.
"""

import difflib
import errno
import importlib
import importlib.metadata
import importlib.util
import io
import os
import sys
from typing import Any

from stoker.protocol.datasets import is_utf8
from stoker.protocol.errors import StokerError, UsageError
from stoker.protocol.importing import working_folder
from stoker.server.commands.exit_statuses import (
    FAILED,
    INTERRUPTED,
    TRY_AGAIN,
    USAGE,
    status_of,
)

# command -> (module, attribute); the order is that of the help text.
COMMANDS = {
    "serve": ("stoker.server.commands.serve_command", "serve"),
    "keygen": ("stoker.server.commands.keygen_command", "keygen"),
    "pack": ("stoker.server.commands.dataset_commands", "pack"),
    "index": ("stoker.server.commands.dataset_commands", "index"),
    "verify": ("stoker.server.commands.dataset_commands", "verify"),
    "ls": ("stoker.server.commands.dataset_commands", "ls"),
    "unpack": ("stoker.server.commands.unpack_command", "unpack"),
    "split": ("stoker.server.commands.split_command", "split"),
    "add-column": ("stoker.server.commands.add_column_command", "add_column"),
    "explain": ("stoker.server.commands.explain_command", "explain"),
    "preview": ("stoker.server.commands.preview_command", "preview"),
    "replay": ("stoker.server.commands.replay_command", "replay"),
    "buckets": ("stoker.server.commands.buckets_command", "buckets"),
    "bench": ("stoker.server.commands.bench_command", "bench"),
    "compare": ("stoker.server.commands.compare_command", "compare"),
    "audit": ("stoker.server.commands.audit_command", "audit"),
    "status": ("stoker.server.commands.status_command", "status"),
    "top": ("stoker.server.commands.top_command", "top"),
    "stacks": ("stoker.server.commands.stacks_command", "stacks"),
    "resize": ("stoker.server.commands.resize_command", "resize"),
    "doctor": ("stoker.server.commands.doctor_command", "doctor"),
    "warm": ("stoker.server.commands.warm_command", "warm"),
    "config": ("stoker.server.commands.config_command", "config"),
}

HELP = {"help_option_names": ["-h", "--help"]}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a file says that can take no more: a full disk, a user's share, a limit on its size."""


def main() -> None:
    """Run the command line and exit."""
    try:
        _run()
    except KeyboardInterrupt:  # before a command runs, which ends with this status itself
        sys.exit(INTERRUPTED)


def _run() -> None:
    try:
        application = _application()
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        fail("the command line needs more packages; run: pip install 'stoker[server]'")
    for text in sys.argv[1:]:
        if not is_utf8(text):
            fail(
                f"argument {text!r} is not UTF-8: rename the file that it names; if that is UTF-8 "
                "on disk, this process reads names in another encoding: set PYTHONUTF8=1",
                USAGE,
            )
    if working_folder() is None:
        fail("the working folder was removed, or this user cannot enter it: change to another one")
    try:
        application(prog_name="stoker")  # also if Python runs a module
    except StokerError as error:
        fail(error.message, status_of(error))
    except OSError as error:
        if error.filename is not None:
            fail(f"{os.fsdecode(error.filename)}: {error.strerror}")
        if error.errno not in _NO_ROOM:
            raise
        sys.stdout = io.StringIO()  # what is left is lost; Python would try again at its end
        fail(
            f"cannot write the output: {error.strerror}; free some space, or send it elsewhere",
            TRY_AGAIN,
        )


def fail(message: str, status: int = FAILED) -> None:
    """Print one clear message on standard error and exit."""
    print(f"stoker: {message}", file=sys.stderr)
    sys.exit(status)


def _application() -> Any:
    import typer  # noqa: PLC0415 - only the extra `server` brings it
    from typer.core import TyperGroup  # noqa: PLC0415

    class Commands(TyperGroup):
        """The commands of `COMMANDS`, each imported when asked for."""

        def list_commands(self, _context: Any) -> list[str]:
            return [name for name, (module, _) in COMMANDS.items() if _exists(module)]

        def resolve_command(self, context: Any, args: list[str]) -> Any:
            close = difflib.get_close_matches(args[0], list(COMMANDS), 1)
            if args[0] not in COMMANDS and close:
                context.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")
            name, command, rest = super().resolve_command(context, args)
            if _has_empty_argument(command, rest):
                raise UsageError(
                    f"{name}: expected a path or a name for each argument, got an empty text; is a "
                    "variable of the shell not set?"
                )
            return name, command, rest

        def get_command(self, _context: Any, name: str) -> Any:
            module, attribute = COMMANDS.get(name, ("", ""))
            if not module or not _exists(module):
                return None
            single = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
            function = getattr(importlib.import_module(module), attribute)
            single.command(name, context_settings=HELP)(function)
            return typer.main.get_command(single)

    application = typer.Typer(
        cls=Commands,
        name="stoker",
        help="A data-loader server.",
        no_args_is_help=True,
        context_settings=HELP,
        pretty_exceptions_enable=False,
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"stoker {importlib.metadata.version('stoker')}")
            raise typer.Exit

    @application.callback()
    def root(
        version: bool = typer.Option(
            False, "--version", callback=show_version, is_eager=True, help="Print the version."
        ),
    ) -> None:
        """Stoker: a data-loader server with deterministic joint pipelines."""

    return application


def _has_empty_argument(command: Any, words: list[str]) -> bool:
    """Return whether an argument of a command is empty, which as a path means the working folder.

    Values of options are not arguments: each option says itself what an empty one means.
    """
    before, valued = "", set()
    for parameter in command.params:
        if not getattr(parameter, "is_flag", False):
            valued.update(parameter.opts)
    for word in words:
        if not word and not (before.startswith("-") and before in valued):
            return True
        before = word
    return False


def _exists(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


if __name__ == "__main__":
    main()
