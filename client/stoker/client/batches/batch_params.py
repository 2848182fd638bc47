"""Draw records as arrays: `batch.params`. `stoker.protocol.draw_records` describes their layout."""

from collections.abc import Sequence

import numpy as np

from stoker.protocol.draw_records import MADE, Drawn


def read_params(drawn: Sequence[Drawn], rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return a copy of the records of a batch by name, each a (rows,) structured array.

    Args:
        drawn: the layout of the records.
        rows: (rows, bytes) uint8, the output.

    Returns:
        Decision name -> structured array: `made` (bool), then the fields of the record.

    Raises:
        ProtocolError: the layout does not fit the rows.
    """
    plain = np.array(rows)
    return {one.name: plain.view(_dtype(one, rows.shape[1])).reshape(len(rows)) for one in drawn}


def _dtype(one: Drawn, row_bytes: int) -> np.dtype:
    little = [np.dtype(field.dtype).newbyteorder("<") for field in one.fields]
    return np.dtype(
        {
            "names": [MADE, *(field.name for field in one.fields)],
            "formats": [
                np.dtype(np.bool_),
                *((kind, field.shape) for kind, field in zip(little, one.fields, strict=True)),
            ],
            "offsets": [one.made, *(field.offset for field in one.fields)],
            "itemsize": row_bytes,
        }
    )
