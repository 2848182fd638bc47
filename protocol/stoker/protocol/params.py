"""Draw records as arrays: `batch.params`. What lies where is told by `stoker.protocol.drawn`."""

from collections.abc import Sequence

import numpy as np

from stoker.protocol.drawn import MADE, Drawn


def read_params(drawn: Sequence[Drawn], rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return the records of a batch by name, each (rows,) structured, of memory of their own.

    Args:
        drawn: what lies where.
        rows: (rows, bytes) uint8, the output.

    Returns:
        Decision name -> structured array: `made` (bool), then the fields of the record.

    Raises:
        ProtocolError: what is said to lie there does not fit.
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
