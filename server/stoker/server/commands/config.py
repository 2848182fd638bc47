"""`stoker config`: check the configuration, and show each value with its origin."""

from typing import Annotated

import typer

from stoker.server.settings import config as configuration


def config(
    config: Annotated[str | None, typer.Option(help="TOML file with the configuration.")] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print every value and where it came from.")
    ] = False,
) -> None:
    """Check the configuration that `stoker serve` would use."""
    loaded = configuration.load(config)
    typer.echo(configuration.show(loaded) if show else "the configuration is valid")
