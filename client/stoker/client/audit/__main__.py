"""`python -m stoker.client.audit`: `stoker audit` where only the client is installed."""

import argparse
import sys

from stoker.client.audit.audit_report import EXAMPLE, print_report, print_run
from stoker.client.audit.auditing import BATCHES, TIMEOUT_S, audit
from stoker.client.audit.loader_questions import QUESTIONS
from stoker.protocol.errors import StokerError, UsageError


def main() -> int:
    """Audit a loader; return 0, 1 with a finding or if it cannot be done, 2 for a wrong call."""
    parser = argparse.ArgumentParser(prog="stoker audit", description=EXAMPLE)
    parser.add_argument("loader", metavar="MODULE:FUNCTION")
    parser.add_argument("--batches", type=int, default=BATCHES, help="to read of an epoch, at most")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds for each run")
    parser.add_argument("--ids", help="output that holds sample ids")
    parser.add_argument("--evaluation", action="store_true", help="seed and epoch change nothing")
    parser.add_argument("--question", action="append", default=[], choices=[*QUESTIONS])
    parser.add_argument("--python-path", action="append", default=[], help="folder of modules")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    given = parser.parse_args()
    try:
        report = audit(
            given.loader, batches=given.batches, timeout_s=given.timeout, ids=given.ids,
            evaluation=given.evaluation, questions=given.question,
            python_path=given.python_path, progress=print_run,
        )  # fmt: skip
    except StokerError as error:
        sys.stderr.write(f"stoker: {error.message}\n")
        return 2 if isinstance(error, UsageError) else 1
    print_report(report, as_json=given.json)
    return int(bool(report.findings))


if __name__ == "__main__":
    sys.exit(main())
