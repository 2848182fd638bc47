"""`stoker config`: show each value of the configuration with its origin, and check them.

It finds all mistakes that `stoker serve` finds before it starts any process, and shows all at once.
"""

import json
from typing import Annotated

import typer

from stoker.protocol.errors import StokerError
from stoker.server.commands.exit_statuses import status_of
from stoker.server.commands.serve_command import check_addresses
from stoker.server.settings import config_loading as configuration
from stoker.server.settings.served_names import nothing_served, served_mistakes


def config(
    config: Annotated[str | None, typer.Option(help="TOML file with the configuration.")] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print every value and where it came from.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print mistakes, values and their sources as JSON.")
    ] = False,
) -> None:
    """Check the configuration that `stoker serve` would use; print all mistakes.

    Example: `stoker config --config stoker.toml --show`.
    """
    mistakes: list[StokerError] = []
    loaded = configuration.load(config, note=mistakes.append)
    if not mistakes:  # a source that cannot be read would have named datasets
        mistakes += nothing_served(loaded)
    try:
        check_addresses(loaded.config)
    except StokerError as error:
        mistakes.append(error)
    mistakes += served_mistakes(loaded)
    if as_json:
        told = [mistake.message for mistake in mistakes]
        typer.echo(json.dumps({"mistakes": told, "values": configuration.sourced_values(loaded)}))
    elif show:
        typer.echo(configuration.show(loaded))
    for mistake in () if as_json else mistakes:
        typer.echo(f"stoker: {mistake.message}", err=True)
    if mistakes:
        raise typer.Exit(max(map(status_of, mistakes)))
    if not show and not as_json:
        typer.echo("the configuration is valid")
