"""Compressed members of archives, inflated once into a temporary file that has no name.

The file vanishes with its descriptor, whatever happens to the process. It lies in the folder of
temporary files, which TMPDIR names.
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
"""What the module zipfile raises on archives that are damaged, or of a form it does not know."""
_PIECE = 2**20


def inflate(descriptor: int, member: str) -> int:
    """Inflate a member of a zip archive.

    Args:
        descriptor: of the archive; it is closed.
        member: its name.

    Returns:
        The descriptor of what was inflated.

    Raises:
        CodecError: the archive is damaged.
        ResourceError: there is no room for it.
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
