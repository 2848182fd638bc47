"""`stoker config`: show each value of the configuration with its origin, and check them.

It finds all mistakes that `stoker serve` finds before it starts any process.
"""

from typing import Annotated

import typer

from stoker.server.settings import config_loading as configuration
from stoker.server.settings.served_names import check_served


def config(
    config: Annotated[str | None, typer.Option(help="TOML file with the configuration.")] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print every value and where it came from.")
    ] = False,
) -> None:
    """Check the configuration that `stoker serve` would use."""
    loaded = configuration.load(config)
    if show:
        typer.echo(configuration.show(loaded))
    check_served(loaded)
    if not show:
        typer.echo("the configuration is valid")
