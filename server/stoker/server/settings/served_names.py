"""Check that what a configuration serves exists; for `stoker serve` at start, and `stoker config`.

Runs before the daemon has started anything. It reads names of files, manifests and the sources of
modules; it imports no module of a user and opens no dataset, so it takes milliseconds.
"""

import os

from stoker.protocol.datasets import is_live, may_exist, why_unreadable
from stoker.protocol.errors import ConfigError, DatasetError, VersionError
from stoker.protocol.files.absent import why_absent
from stoker.server.settings.config_loading import Loaded
from stoker.server.settings.dataset_headers import check_headers
from stoker.server.settings.module_lookup import why_missing


def check_served(loaded: Loaded) -> None:
    """Check the datasets, pipelines and modules of a configuration.

    Raises:
        ConfigError: one does not exist, or there is no dataset; it names the key and its origin.
        DatasetError: a manifest is damaged, or a file is missing or has another size.
        VersionError: a dataset was packed by a newer Stoker.
    """
    config = loaded.config
    if not config.datasets:
        raise ConfigError(
            "nothing to serve: the configuration names no dataset; add --dataset NAME=PATH, or"
            ' NAME = "PATH" under [datasets]'
        )
    folders = config.daemon.python_path
    for folder in folders:
        if not os.path.isdir(folder):
            _refuse(
                loaded, "daemon.python_path", f"there is no folder {folder}{why_absent(folder)}"
            )
    for name, path in config.datasets.items():
        key = f"datasets.{name}"
        _refuse(loaded, key, _why_no_dataset(path, folders), dataset=name)
        try:
            check_headers(path)
        except (DatasetError, VersionError) as error:
            message = f"{loaded.origins[key]}: dataset {name!r}: {error.message}"
            raise type(error)(message, **error.details) from None
    for name, target in config.pipelines.items():
        _refuse(loaded, f"pipelines.{name}", why_missing(target, folders), pipeline=name)
    for module in config.daemon.op_modules:
        if module != "*":
            _refuse(loaded, "daemon.op_modules", why_missing(module, folders))


def _why_no_dataset(path: str, folders: tuple[str, ...]) -> str:
    if is_live(path):
        return why_missing(path, folders)
    if not may_exist(path):
        return (
            f"there is no {path}; name the folder that `stoker pack` wrote, or a source that is"
            f" read in place{why_absent(path)}"
        )
    return why_unreadable(path)


def _refuse(loaded: Loaded, key: str, reason: str, **names: str) -> None:
    """Raise a ConfigError if there is a reason."""
    if not reason:
        return
    origin = loaded.origins[key]
    what = "".join(f"{kind} {name!r}: " for kind, name in names.items()) or f"{key}: "
    raise ConfigError(f"{origin}: {what}{reason}", key=key, origin=origin, reason=reason, **names)
