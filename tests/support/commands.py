"""A `stoker` command in the process of the tests, for tests that are not about starting one."""

import contextlib
import io
import sys
from pathlib import Path

import pytest

from stoker.server import __main__
from stoker.server.workers import death


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
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                __main__.main()
            except SystemExit as end:
                code = end.code
    assert death._is_subreaper() == adopts, "this process has begun to be a daemon: execute one"
    assert code is None or isinstance(code, int), code
    return code or 0, out.getvalue(), errors.getvalue()


def pack_folder(source: Path, dest: Path) -> Path:
    """Run `stoker pack SOURCE DEST`; return the destination."""
    code, _, errors = call("pack", source, dest, "--workers=1")
    assert code == 0, errors
    return dest
