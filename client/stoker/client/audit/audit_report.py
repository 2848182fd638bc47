"""Printing an audit: the report on standard output, its progress on standard error."""

import dataclasses
import json
import sys
from typing import Final

from stoker.client.audit.loader_questions import QUESTIONS, AuditReport

EXAMPLE: Final = (
    "Audit a data loader: does it give the same batches again, with other numbers of workers, and"
    " after a resume, and other ones with other seeds, epochs and ranks? MODULE:FUNCTION makes it,"
    " such as my_data:make_loader with def make_loader(workers=0, seed=0, epoch=0). Exit status 1"
    " with findings."
)


def print_run(name: str) -> None:
    """Print that a run begins."""
    sys.stderr.write(f"{name} ...\n")


def print_report(report: AuditReport, *, as_json: bool) -> None:
    """Print a report as lines or as JSON."""
    if not as_json:
        sys.stdout.write(f"{report}\n")
        return
    answers = [
        {**dataclasses.asdict(one), "promise": QUESTIONS[one.question]} for one in report.answers
    ]
    told = {"loader": report.loader, "findings": len(report.findings), "questions": answers}
    sys.stdout.write(json.dumps(told) + "\n")
