"""A `stoker` command in the process of the tests, for tests that are not about starting one."""

import contextlib
import functools
import io
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from stoker.server import __main__
from stoker.server.workers import death

_made_by_main = __main__._application


@functools.cache
def _application() -> Any:
    """Return the command line as typer makes it of the functions, each command once.

    typer makes all again for every call, which takes most of its time. Meanwhile it reads variables
    whose names begin with `_`.
    """
    group: Any = typer.main.get_command(_made_by_main())
    make, made = group.get_command, {}

    def get_command(context: Any, name: str) -> Any:
        if name not in made:
            made[name] = make(context, name)
        return made[name]

    group.get_command = get_command
    return group


def call(*arguments: object, **environment: str) -> tuple[int, str, str]:
    """Run the command line; return its exit code, standard output and standard error.

    `stoker serve` must not come so far that it changes this process, which then adopts orphans.

    Args:
        arguments: as a shell would give them.
        environment: variables that differ from this process's.
    """
    out, errors, code, adopts = io.StringIO(), io.StringIO(), None, death._is_subreaper()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["stoker", *map(str, arguments)])
        patch.setattr(sys, "path", [*sys.path])
        of_typer = any(name.startswith("_") for name in environment)
        if __main__._application is _made_by_main and not of_typer:
            patch.setattr(__main__, "_application", _application)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                __main__.main()
            except SystemExit as end:
                code = end.code
    assert death._is_subreaper() == adopts, "this process has begun to be a daemon: execute one"
    assert code is None or isinstance(code, int), code
    return code or 0, out.getvalue(), errors.getvalue()


def pack_folder(source: Path, dest: Path, *flags: str) -> Path:
    """Run `stoker pack SOURCE DEST`; return the destination."""
    code, _, errors = call("pack", source, dest, "--workers=1", *flags)
    assert code == 0, errors
    return dest
