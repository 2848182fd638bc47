"""`DatasetWriter`: write an indexable dataset as a Stoker dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.compat.ffcv.fields.field_types import Field
from stoker.dataset.format.fields import Schema
from stoker.dataset.format.marked_file import folder_next_to, write_mark
from stoker.dataset.packing.build import write_dataset
from stoker.protocol.errors import UsageError


class DatasetWriter:
    """Writes samples, in this process.

    Args:
        fname: name of the dataset; an existing dataset is replaced. A name with a suffix, such as
            `train.beton`, becomes a file, because scripts look for one; the dataset is in the
            folder `train.beton.stoker` next to it. Other names are those of the folder.
        fields: name -> field, in the order of a sample's parts.
        page_size: has no effect here.
        num_workers: has no effect here; `stoker pack` writes in parallel.
    """

    def __init__(
        self,
        fname: str | os.PathLike[str],
        fields: Mapping[str, Field],
        page_size: int | None = None,
        num_workers: int = -1,
    ) -> None:
        self._path = fname
        self._fields = dict(fields)

    def from_indexed_dataset(
        self,
        dataset: Any,
        indices: Sequence[int] | None = None,
        chunksize: int = 100,
        shuffle_indices: bool = False,
    ) -> None:
        """Write the samples of a dataset with `__len__` and `__getitem__`.

        Args:
            dataset: returns a tuple with a value per field for each index.
            indices: the samples to write; by default all.
            chunksize: has no effect here.
            shuffle_indices: must be False: the loader shuffles, and reads every order equally fast.

        Raises:
            UsageError: a sample has another number of parts, or a part does not fit its field.
        """
        if shuffle_indices:
            raise UsageError(
                "shuffle_indices: expected False, because a dataset keeps the order of its source; "
                "leave it out, and load with OrderOption.RANDOM"
            )
        chosen = range(len(dataset)) if indices is None else indices
        schema = Schema(tuple(field.declare(name) for name, field in self._fields.items()))
        path = Path(self._path)
        is_marked = bool(path.suffix) and not path.is_dir()
        folder = folder_next_to(path) if is_marked else path
        write_dataset(folder, schema, self._rows(dataset, chosen), overwrite=True)
        if is_marked:
            write_mark(path)

    def _rows(self, dataset: Any, indices: Sequence[int]) -> Iterator[dict[str, Any]]:
        for index, place in enumerate(indices):
            sample = dataset[place]
            parts = sample if isinstance(sample, tuple | list) else (sample,)
            if len(parts) != len(self._fields):
                raise UsageError(
                    f"sample {place}: expected one value for each field "
                    f"({', '.join(self._fields)}), got {len(parts)} values"
                )
            yield {
                name: self._encoded(name, field, part, index)
                for (name, field), part in zip(self._fields.items(), parts, strict=True)
            }

    def _encoded(self, name: str, field: Field, part: Any, index: int) -> Any:
        try:
            return field.encode(part, index)
        except (TypeError, ValueError, UsageError) as error:
            raise UsageError(f"sample {index}, field {name!r}: {error}") from error
