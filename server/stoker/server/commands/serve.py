"""`stoker serve`: run the daemon until a signal or its last client ends it.

With `--ready-fd N` one JSON line goes to descriptor N, which then closes: `{"address": ...}` once
the daemon listens (and `"tcp"`, if it listens for other hosts too), or
`{"error": [code, message, details]}` if it cannot. So a process that starts a daemon need not guess
or poll.
"""

import contextlib
import gc
import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.protocol.errors import StokerError, UsageError
from stoker.server.daemon.descriptor_limits import raise_limit, session_limit
from stoker.server.daemon.launch import Launched, launch, pin_threads
from stoker.server.daemon.socket_folder import group_number, make_folder, socket_path
from stoker.server.settings import config_loading as configuration
from stoker.server.settings.config_types import Config
from stoker.server.settings.logs import Logs
from stoker.server.settings.served_names import check_served
from stoker.server.workers.death import adopt_orphans

if TYPE_CHECKING:
    from stoker.server.daemon.daemon import Daemon


def serve(  # noqa: PLR0913, PLR0917 - one parameter a flag
    config: Annotated[str | None, typer.Option(help="TOML file with the configuration.")] = None,
    address: Annotated[str | None, typer.Option(help="Address to listen at, ipc:///path.")] = None,
    tcp: Annotated[
        str | None,
        typer.Option(help="Address for other hosts, tcp://HOST:PORT; PORT + 1 is used too."),
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option("--insecure", help="Let everyone who reaches the TCP port read the datasets."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="File with this daemon's secret key, for --tcp.")
    ] = None,
    clients: Annotated[
        str | None, typer.Option(help="File with the public keys of those who may use --tcp.")
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=PATH of a packed dataset, NAME=PATTERN, or NAME=module:Class; repeatable."
        ),
    ] = None,
    pipeline: Annotated[
        list[str] | None, typer.Option(help="NAME=module:attr of a pipeline; repeatable.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Number of worker processes.")] = None,
    memory_limit: Annotated[
        str | None, typer.Option(help="Most memory for batches, such as 8GiB.")
    ] = None,
    memory_session_limit: Annotated[
        str | None, typer.Option(help="Most memory for the batches of one client, such as 2GiB.")
    ] = None,
    debug_memory: Annotated[
        bool | None,
        typer.Option("--debug-memory", help="Run every kernel between guard bytes, slowly."),
    ] = None,
    integrity: Annotated[
        str | None,
        typer.Option(
            help="Compare rows with their stored check when they are read: auto, rows or off."
        ),
    ] = None,
    python_path: Annotated[
        list[str] | None, typer.Option(help="Folder to import pipelines from; repeatable.")
    ] = None,
    op_module: Annotated[
        list[str] | None,
        typer.Option(help="Module whose ops pipelines of clients may name; repeatable."),
    ] = None,
    socket_group: Annotated[
        str | None, typer.Option(help="Unix group whose members may connect too.")
    ] = None,
    metrics_address: Annotated[
        str | None, typer.Option(help="[HOST:]PORT of /metrics, /livez and /readyz.")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json.")] = None,
    exit_with_last_client: Annotated[
        bool | None,
        typer.Option("--exit-with-last-client", help="End once the last client is gone."),
    ] = None,
    ready_fd: Annotated[
        int | None, typer.Option(help="Descriptor to write one JSON line to when ready.")
    ] = None,
) -> None:
    """Serve datasets to clients on this host."""
    try:
        loaded = configuration.load(
            config,
            {
                "daemon.address": address,
                "daemon.tcp": tcp,
                "daemon.insecure": insecure,
                "daemon.key": key,
                "daemon.clients": clients,
                "daemon.exit_with_last_client": exit_with_last_client,
                "daemon.integrity": integrity,
                "daemon.python_path": python_path or None,
                "daemon.op_modules": op_module or None,
                "daemon.socket_group": socket_group,
                "datasets": named("--dataset", dataset),
                "pipelines": named("--pipeline", pipeline),
                "workers.count": workers,
                "workers.debug_memory": debug_memory,
                "memory.limit": memory_limit,
                "memory.session_limit": memory_session_limit,
                "metrics.address": metrics_address,
                "log.level": log_level,
                "log.format": log_format,
            },
        )
        _check_tcp(loaded.config)
        check_served(loaded)
        _check_default_folder(loaded)
        # Before the template starts, which inherits the limit and needs descriptors itself.
        session_limit(raise_limit(), loaded.config.workers.count)
        pin_threads()
        adopt_orphans()  # of a template that is killed
        settings, log = loaded.config.daemon, loaded.config.log
        with (
            Logs(log.level, log.format, sys.stderr),
            launch(settings.cache_root, settings.python_path) as template,
            start_daemon(loaded.config, template) as daemon,
        ):
            tell_ready(ready_fd, _where(daemon))
            ready_fd = None
            gc.collect()
            gc.freeze()  # later collections can skip objects that live as long as the daemon
            code = daemon.run()
    except StokerError as error:
        tell_ready(ready_fd, {"error": error.to_record()})
        raise
    except RuntimeError as error:
        if "thread" not in str(error):
            raise
        from stoker.protocol.descriptors import too_few_threads  # noqa: PLC0415 - for this error

        refusal = too_few_threads("the daemon")
        tell_ready(ready_fd, {"error": refusal.to_record()})
        raise refusal from None
    raise typer.Exit(code)


def _check_tcp(config: Config) -> None:
    """Refuse a TCP address that is wrong or unprotected, before anything starts."""
    settings = config.daemon
    if settings.tcp or settings.insecure or settings.key or settings.clients:
        from stoker.server.daemon.remote.access import access_of  # noqa: PLC0415 - needs zmq
        from stoker.server.daemon.remote.tcp_listener import check_exposure  # noqa: PLC0415

        access_of(settings)
        check_exposure(settings)


def _where(daemon: "Daemon") -> dict[str, object]:
    """Return the line of `--ready-fd`."""
    line: dict[str, object] = {"address": daemon.address}
    if daemon.tcp_address is not None:
        line["tcp"] = daemon.tcp_address
    return line


def _check_default_folder(loaded: configuration.Loaded) -> None:
    """Refuse a default folder for the sockets that another user made or can write to."""
    settings = loaded.config.daemon
    if loaded.origins["daemon.address"] != "default":
        return
    folder = os.path.dirname(socket_path(settings.address))
    with contextlib.suppress(OSError):  # the daemon reports it when it takes the address
        make_folder(folder, group_number(settings.socket_group), default=True)


def start_daemon(config: Config, template: Launched) -> "Daemon":
    """Return a daemon that listens; it is imported while the template imports what it needs.

    Raises:
        StokerError: it cannot listen.
    """
    from stoker.server.daemon.daemon import Daemon  # noqa: PLC0415 - wrong flags need no sockets
    from stoker.server.daemon.supervisor import Supervisor  # noqa: PLC0415

    return Daemon(config, supervisor=partial(Supervisor, template=template))


def named(flag: str, values: list[str] | None) -> dict[str, str]:
    """Read repeated NAME=VALUE flags.

    Raises:
        UsageError: one has no name or no value, or a name comes twice.
    """
    found: dict[str, str] = {}
    for text in values or ():
        name, _, value = text.partition("=")
        if not name or not value:
            raise UsageError(f"{flag} {text!r}: expected NAME=VALUE")
        if name in found:
            raise UsageError(
                f"{flag} {text!r}: {name!r} is {found[name]!r} already; give each name once"
            )
        found[name] = value
    return found


def tell_ready(descriptor: int | None, line: dict[str, object]) -> None:
    """Write one JSON line to the descriptor, if any, and close it.

    Raises:
        UsageError: nothing can be written there.
    """
    if descriptor is None:
        return
    try:
        with os.fdopen(descriptor, "w") as file:
            print(json.dumps(line), file=file)
    except BrokenPipeError:
        return  # the process that waited is gone; the daemon may still be of use to others
    except OSError as error:
        raise UsageError(
            f"--ready-fd {descriptor}: {error.strerror}; pass the number of an open descriptor"
        ) from None
