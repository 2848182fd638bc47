"""Compressed members of archives, inflated once into an unnamed temporary file.

The file vanishes with its descriptor, however the process ends. It is in the folder for temporary
files, which TMPDIR sets.
"""

import os
import shutil
import tempfile
import zipfile
import zlib

from stoker.dataset.limits import CodecError
from stoker.protocol.errors import ResourceError

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, NotImplementedError,
          RuntimeError)  # fmt: skip
"""Exceptions of the module zipfile for archives that are damaged or unsupported."""
_PIECE = 2**20


def inflate(descriptor: int, member: str) -> int:
    """Inflate a member of a zip archive.

    Args:
        descriptor: the archive; it is closed here.
        member: the member's name.

    Returns:
        The descriptor of the inflated data.

    Raises:
        CodecError: the archive is damaged.
        ResourceError: there is not enough disk space.
    """
    with os.fdopen(descriptor, "rb") as file, tempfile.TemporaryFile(buffering=0) as out:
        try:
            with zipfile.ZipFile(file) as archive, archive.open(member) as stream:
                shutil.copyfileobj(stream, out, _PIECE)
        except DAMAGE as error:
            raise CodecError(f"its member {member} is damaged: {error}") from None
        except OSError as error:
            raise ResourceError(
                f"cannot inflate {member} into {tempfile.gettempdir()}: {error.strerror}; free "
                "some space there, or set TMPDIR to another folder"
            ) from None
        return os.dup(out.fileno())
