"""The samples of one WebDataset tar: keys in order, and the places of the members of each.

They are kept as columns of numbers, not objects: 16 bytes per member, and the key. Built from
headers alone.
"""

from array import array
from collections import Counter
from pathlib import Path

from stoker.dataset.format.fields import MAX_FIELDS
from stoker.dataset.sources.formats.tar import TarError, read_members
from stoker.protocol.errors import UsageError

_MAX_EXTENSIONS = MAX_FIELDS


class MemberColumn:
    """The members with one extension: offset and size per sample, -1 for samples without one."""

    def __init__(self) -> None:
        self.offsets = array("q")
        self.sizes = array("q")

    def put(self, sample: int, offset: int, size_bytes: int) -> bool:
        """Add a sample's member; False if it already has one."""
        self.grow(sample + 1)
        if self.offsets[sample] >= 0:
            return False
        self.offsets[sample], self.sizes[sample] = offset, size_bytes
        return True

    def grow(self, samples: int) -> None:
        """Make room for this many samples."""
        missing = [-1] * (samples - len(self.offsets))
        self.offsets.extend(missing)
        self.sizes.extend(missing)


class TarSamples:
    """The content of one tar.

    Attributes:
        keys: keys of its samples, in order.
        parts: extension, in lower case -> its members.
        faults: sample -> why it is invalid.
        broken: why the archive could not be read to its end; empty if it could.
        ignored: members that belong to no sample, with counts.
    """

    def __init__(self, path: Path) -> None:
        """Read the headers of a tar.

        Raises:
            UsageError: its members have too many different extensions.
        """
        self.keys: list[str] = []
        self.parts: dict[str, MemberColumn] = {}
        self.faults: dict[int, str] = {}
        self.broken = ""
        self.ignored: Counter[str] = Counter()
        self._path = path
        self._seen: set[str] = set()
        try:
            for member in read_members(path):
                self._add(member.name, member.offset, member.size_bytes)
        except TarError as error:
            self.broken = f"{error}; everything after it is lost"
        except OSError as error:
            self.broken = f"it cannot be read: {error.strerror}"
        self._seen.clear()
        for part in self.parts.values():
            part.grow(len(self.keys))

    def _add(self, name: str, offset: int, size_bytes: int) -> None:
        folder, slash, last = name.rpartition("/")
        stem, _, extension = last.partition(".")
        if not stem or not extension:
            self.ignored["members without a key and an extension"] += 1
            return
        key = folder + slash + stem
        if not self.keys or self.keys[-1] != key:
            if key in self._seen:
                self.faults[len(self.keys)] = (
                    f"its key occurred before, ahead of other samples (again at byte {offset}); "
                    "members of a sample must be adjacent"
                )
            self._seen.add(key)
            self.keys.append(key)
        sample, extension = len(self.keys) - 1, extension.lower()
        if extension not in self.parts and len(self.parts) >= _MAX_EXTENSIONS:
            raise UsageError(
                f"{self._path} has more than {_MAX_EXTENSIONS} extensions, the last .{extension}; "
                "an extension is everything after the first dot of a name, so keys must have no "
                "dots"
            )
        part = self.parts.setdefault(extension, MemberColumn())
        if not part.put(sample, offset, size_bytes):
            self.faults[sample] = f"it has two members .{extension}, the second at byte {offset}"
