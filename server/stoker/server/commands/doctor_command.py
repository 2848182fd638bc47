"""`stoker doctor`: what of this host keeps Stoker from working well, and what to change.

It looks with the eyes of the process that runs it: in a container, in a job of a cluster or under
systemd, run it there.
"""

import json
from typing import Annotated

import msgspec
import typer

from stoker.server.commands.exit_statuses import FAILED
from stoker.server.commands.host_checks import examine


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check this host: limits, memory, codecs, caches, versions; exit status 1 with a problem.

    Examples: `stoker doctor`, `stoker doctor --json`.
    """
    findings = examine()
    problems = [finding for finding in findings if finding.remedy]
    if as_json:
        shown = [msgspec.structs.asdict(finding) for finding in findings]
        typer.echo(json.dumps({"problems": len(problems), "findings": shown}))
    else:
        for finding in findings:
            mark = typer.style("problem", fg="red") if finding.remedy else "ok     "
            typer.echo(f"{mark}  {finding.name}: {finding.found}")
            if finding.remedy:
                typer.echo(f"         remedy: {finding.remedy}")
    if problems:
        raise typer.Exit(FAILED)
