"""Open the reader of a recipe; runs in workers."""

import contextlib
from collections.abc import Callable, Iterator, Mapping

from stoker.dataset.sources.common.readers import FileReader, Reader
from stoker.dataset.sources.common.recipe import Recipe
from stoker.dataset.sources.formats.ffcv import BetonReader
from stoker.dataset.sources.formats.object_reader import ObjectReader
from stoker.dataset.sources.formats.row_reader import RowReader
from stoker.dataset.sources.formats.tar_reader import TarReader
from stoker.dataset.sources.formats.unpacked_reader import UnpackedReader

READERS: Mapping[str, Callable[[Recipe], Reader]] = {
    "files": FileReader,
    "tars": TarReader,
    "rows": RowReader,
    "beton": BetonReader,
    "python": ObjectReader,
    "unpacked": UnpackedReader,
}


@contextlib.contextmanager
def open_reader(recipe: Recipe) -> Iterator[Reader]:
    """Open the reader of a recipe for a `with` block."""
    reader = READERS[recipe.reader](recipe)
    try:
        yield reader
    finally:
        reader.close()
