"""The values of one sample by name: a dict that notebooks show as pictures."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from stoker.protocol.output_forms import described
from stoker.protocol.pictures import figures, heading, table


class SampleValues(dict[str, Any]):
    """A dict of arrays by name, of a stored sample or of a row.

    Args:
        values: by name, as for a dict.
        title: what it is, for notebooks.
    """

    def __init__(
        self, values: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), title: str = "Sample"
    ) -> None:
        super().__init__(values)
        self.title = title

    def _repr_html_(self) -> str:
        """Return what notebooks show: its pictures, and all of its values."""
        shown = figures((f"{name} {np.shape(value)}", value) for name, value in self.items())
        rows = [(name, _told(value)) for name, value in self.items()]
        return f"{heading(self.title)}<div>{shown}</div>{table(('name', 'value'), rows)}"


def _told(value: Any) -> str:
    """Return a number as it is, and anything else by its shape."""
    return str(value) if np.ndim(value) == 0 else described(value)
