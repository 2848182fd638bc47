"""A `stoker` command in the process of the tests, for tests that are not about starting one.

Not for a daemon that starts: it would own all children of this process.
"""

import contextlib
import io
import sys

import pytest

from stoker.server import __main__
from stoker.server.workers.death import _is_subreaper


def call(*arguments: object, **environment: str) -> tuple[int, str, str]:
    """Run the command line; return its exit code, standard output and standard error.

    Args:
        arguments: as a shell would give them.
        environment: variables that differ from this process's.
    """
    out, errors, code = io.StringIO(), io.StringIO(), None
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
    assert code is None or isinstance(code, int), code
    assert not _is_subreaper(), "a daemon began to start in the process of the tests"
    return code or 0, out.getvalue(), errors.getvalue()
