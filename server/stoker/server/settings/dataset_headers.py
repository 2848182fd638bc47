"""A cheap look at packed datasets before a daemon starts: their manifests, and sizes of files.

The daemon does not import the package of datasets, which would double the time of its start. So
this only notices that something is wrong; then the dataset is opened for the error. Rows are not
read: `stoker verify` does that.
"""

import os

import msgspec

from stoker.protocol import version
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.datasets import BESIDE, MANIFEST


def check_headers(path: str) -> None:
    """Check the manifest of a dataset, and the sizes of its files, if it has a manifest yet.

    Raises:
        DatasetError: it is damaged.
        VersionError: it was packed by a newer Stoker.
    """
    folder = next((one for one in (path, path + BESIDE) if os.path.isfile(_manifest(one))), "")
    if folder and not _is_whole(folder):
        from stoker.dataset import open_dataset  # noqa: PLC0415 - see the module docstring

        open_dataset(folder).close()


def _manifest(folder: str) -> str:
    return os.path.join(folder, MANIFEST)


def _is_whole(folder: str) -> bool:
    """Return whether a manifest is known and has its checksum, and each file has its size."""
    try:
        with open(_manifest(folder), "rb") as file:
            manifest = msgspec.json.decode(file.read())
        checksum = manifest.pop("checksum")
        sizes = [
            os.stat(os.path.join(folder, file["name"])).st_size - file["size_bytes"]
            for whole in manifest["files"]
            for file in (whole, *whole.get("beside", ()))
        ]
        known = manifest["version"] <= version.MANIFEST
        return known and not any(sizes) and canonical_digest(manifest) == checksum
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False
