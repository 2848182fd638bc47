"""Runs of an audit, forked from a process that has imported what they import (`warm.Script`)."""

from collections.abc import Sequence

import pytest
from warm import Script

from stoker.client.audit import run_processes

_MODULE = "stoker.client.audit.audited_run"
_MAIN = f"import sys; from {_MODULE} import main; sys.exit(main())"


def fork_runs(patch: pytest.MonkeyPatch, more: Sequence[str] = ()) -> None:
    """Fork the runs of audits from now on.

    Args:
        patch: undoes it.
        more: modules that the process has imported, besides the client and torch.
    """

    def executed(arguments: Sequence[str], timeout_s: float, errors: int) -> int | None:
        words = [word for word in arguments if word not in ("-m", _MODULE)]
        imports = (_MODULE, "torch.utils.data", *more)
        with Script("-c", _MAIN, *words, stderr=errors, imports=imports) as process:
            return process.wait(timeout_s)

    patch.setattr(run_processes, "executed", executed)
