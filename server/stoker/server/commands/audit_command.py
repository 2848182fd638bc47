"""`stoker audit`: whether any data loader keeps the promises that a training relies on.

It is the client's (`stoker.client.audit`), which also runs without the server's packages as
`python -m stoker.client.audit`.
"""

from typing import Annotated

import typer

from stoker.server.commands.exit_statuses import FAILED


def audit(
    loader: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION",
            help="Function that makes a loader; it may take workers, seed, epoch, rank, world_size"
            " and only, each by name.",
        ),
    ],
    *,
    batches: Annotated[int, typer.Option(help="Batches of an epoch to read, at most.")] = 50,
    timeout: Annotated[
        float, typer.Option(help="Seconds for each run; one that takes longer is a finding.")
    ] = 300.0,
    ids: Annotated[
        str | None,
        typer.Option(help="Output that holds sample ids; by default index, id or a similar one."),
    ] = None,
    evaluation: Annotated[
        bool, typer.Option("--evaluation", help="Seed and epoch must change nothing.")
    ] = False,
    question: Annotated[
        list[str] | None, typer.Option(help="Question to ask; repeatable; by default all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    python_path: Annotated[
        list[str] | None, typer.Option(help="Folder to import the module from; repeatable.")
    ] = None,
) -> None:
    """Audit any data loader: run it in several ways, compare; exit status 1 with findings.

    Examples: `stoker audit my_data:make_loader`,
    `stoker audit my_data:make_loader --batches 20 --json`.
    """
    from stoker.client.audit import audit as run  # noqa: PLC0415 - needs zmq
    from stoker.client.audit.audit_report import print_report, print_run  # noqa: PLC0415

    report = run(
        loader, batches=batches, timeout_s=timeout, ids=ids, evaluation=evaluation,
        questions=question or (), python_path=python_path or (), progress=print_run,
    )  # fmt: skip
    print_report(report, as_json=as_json)
    if report.findings:
        raise typer.Exit(FAILED)
