"""Check that what a configuration serves exists; for `stoker serve` at start, and `stoker config`.

Runs before the daemon has started anything. It reads names of files, manifests and the sources of
modules; it imports no module of a user and opens no dataset, so it takes milliseconds.
"""

import os
from collections.abc import Iterator

from stoker.protocol.datasets import is_live, may_exist, why_unreadable
from stoker.protocol.errors import ConfigError, DatasetError, StokerError, VersionError
from stoker.protocol.files.absent import why_absent
from stoker.server.settings.config_loading import Loaded
from stoker.server.settings.dataset_headers import check_headers
from stoker.server.settings.module_lookup import why_missing


def check_served(loaded: Loaded) -> None:
    """Check the datasets, pipelines and modules of a configuration.

    Raises:
        StokerError: the first of `served_mistakes`; or ConfigError: there is no dataset.
    """
    for error in (*nothing_served(loaded), *served_mistakes(loaded)):
        raise error


def nothing_served(loaded: Loaded) -> Iterator[ConfigError]:
    """Yield an error if a configuration names no dataset."""
    if not loaded.config.datasets:
        yield ConfigError(
            "nothing to serve: the configuration names no dataset; add --dataset NAME=PATH, or"
            ' NAME = "PATH" under [datasets]'
        )


def served_mistakes(loaded: Loaded) -> Iterator[StokerError]:
    """Yield what is wrong with the datasets, pipelines and modules of a configuration.

    ConfigError: one does not exist; it names the key and its origin. DatasetError: a manifest is
    damaged, or a file is missing or has another size. VersionError: a dataset was packed by a newer
    Stoker.
    """
    config = loaded.config
    folders = config.daemon.python_path
    for folder in folders:
        if not os.path.isdir(folder):
            reason = f"there is no folder {folder}{why_absent(folder)}"
            yield from _refusal(loaded, "daemon.python_path", reason)
    for name, path in config.datasets.items():
        key = f"datasets.{name}"
        refused = [*_refusal(loaded, key, _why_no_dataset(path, folders), dataset=name)]
        yield from refused
        if refused:
            continue
        try:
            check_headers(path)
        except (DatasetError, VersionError) as error:
            message = f"{loaded.origins[key]}: dataset {name!r}: {error.message}"
            yield type(error)(message, **error.details)
    for name, target in config.pipelines.items():
        reason = why_missing(target, folders)
        yield from _refusal(loaded, f"pipelines.{name}", reason, pipeline=name)
    for module in config.daemon.op_modules:
        if module != "*":
            yield from _refusal(loaded, "daemon.op_modules", why_missing(module, folders))


def _why_no_dataset(path: str, folders: tuple[str, ...]) -> str:
    if is_live(path):
        return why_missing(path, folders)
    if not may_exist(path):
        return (
            f"there is no {path}; name the folder that `stoker pack` wrote, or a source that is"
            f" read in place{why_absent(path)}"
        )
    return why_unreadable(path)


def _refusal(loaded: Loaded, key: str, reason: str, **names: str) -> Iterator[ConfigError]:
    """Yield a ConfigError if there is a reason."""
    if not reason:
        return
    origin = loaded.origins[key]
    what = "".join(f"{kind} {name!r}: " for kind, name in names.items()) or f"{key}: "
    yield ConfigError(f"{origin}: {what}{reason}", key=key, origin=origin, reason=reason, **names)
