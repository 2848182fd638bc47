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
from stoker.server.commands.settings_flags import Settings, takes_settings
from stoker.server.daemon.descriptor_limits import raise_limit, session_limit
from stoker.server.daemon.launch import Launched, launch, pin_threads
from stoker.server.daemon.reloader import Reloader
from stoker.server.daemon.socket_folder import group_number, make_folder, socket_path
from stoker.server.daemon.stack_signal import stacks_on_signal
from stoker.server.settings import config_loading as configuration
from stoker.server.settings.config_types import Config
from stoker.server.settings.logs import Logs
from stoker.server.settings.served_names import check_served
from stoker.server.workers.death import adopt_orphans

if TYPE_CHECKING:
    from stoker.server.daemon.daemon import Daemon


@takes_settings
def serve(
    config: Annotated[str | None, typer.Option(help="TOML file with the configuration.")] = None,
    *,
    settings: Settings,
    ready_fd: Annotated[
        int | None, typer.Option(help="Descriptor to write one JSON line to when ready.")
    ] = None,
) -> None:
    """Serve datasets to clients on this host.

    Examples: `stoker serve --config stoker.toml`,
    `stoker serve --dataset photos=packed --python-path . --pipeline train=pipelines:train`.
    """
    check_descriptor(ready_fd)
    read = partial(configuration.load, config, settings)
    try:
        loaded = read()
        check_addresses(loaded.config)
        check_served(loaded)
        _check_default_folder(loaded)
        # Before the template starts, which inherits the limit and needs descriptors itself.
        session_limit(raise_limit(), loaded.config.workers.count)
        pin_threads()
        adopt_orphans()  # of a template that is killed
        own, log = loaded.config.daemon, loaded.config.log
        with (
            stacks_on_signal(sys.stderr.fileno()),
            Logs(log.level, log.format, sys.stderr),
            launch(own.cache_root, own.python_path) as template,
            start_daemon(loaded.config, template, Reloader(loaded, read)) as daemon,
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


def check_addresses(config: Config) -> None:
    """Refuse an address that is wrong, or one without protection; starts nothing.

    Raises:
        StokerError: as `socket_path`, `access_of`, `check_exposure` and `page_access`.
    """
    settings = config.daemon
    socket_path(settings.address)
    if settings.tcp or settings.insecure or settings.key or settings.clients:
        from stoker.server.daemon.remote.access import access_of  # noqa: PLC0415 - needs zmq
        from stoker.server.daemon.remote.tcp_listener import check_exposure  # noqa: PLC0415

        access_of(settings)
        check_exposure(settings)
    if config.metrics.address:
        from stoker.server.daemon.page.page_access import page_access  # noqa: PLC0415

        page_access(config.metrics)


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


def start_daemon(config: Config, template: Launched, reloader: Reloader | None = None) -> "Daemon":
    """Return a daemon that listens; it is imported while the template imports what it needs.

    Raises:
        StokerError: it cannot listen.
    """
    from stoker.server.daemon.daemon import Daemon  # noqa: PLC0415 - wrong flags need no sockets
    from stoker.server.daemon.supervisor import Supervisor  # noqa: PLC0415

    return Daemon(config, supervisor=partial(Supervisor, template=template), reloader=reloader)


def check_descriptor(descriptor: int | None) -> None:
    """Refuse a number for `--ready-fd` that is no open descriptor, before anything is started.

    Raises:
        UsageError: it is not.
    """
    if descriptor is not None:
        try:
            os.fstat(descriptor)
        except (OSError, OverflowError) as error:
            raise _no_descriptor(descriptor, error) from None


def _no_descriptor(descriptor: int, error: Exception) -> UsageError:
    why = error.strerror if isinstance(error, OSError) else "no descriptor has such a number"
    return UsageError(f"--ready-fd {descriptor}: {why}; pass the number of an open descriptor")


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
        raise _no_descriptor(descriptor, error) from None
