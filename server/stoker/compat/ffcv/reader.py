"""`Reader`: what scripts ask a dataset before they load it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from stoker.dataset import open_dataset
from stoker.protocol.errors import UsageError


class Reader:
    """The number and the fields of a dataset's samples.

    Args:
        fname: a dataset, as for `Loader`.
        custom_handlers: must be empty: the dataset already has its fields.

    Attributes:
        file_name: the name that was given.
        num_samples: how many samples it has.
        field_names: the names of its fields, in order.

    Raises:
        UsageError: handlers are given.
    """

    def __init__(
        self,
        fname: str | os.PathLike[str],
        custom_handlers: Mapping[str, Any] | None = None,
    ) -> None:
        if custom_handlers:
            raise UsageError(
                "custom_handlers: expected none, because a Stoker dataset has its own fields; "
                "leave it out"
            )
        with open_dataset(fname) as dataset:
            self.file_name = fname
            self.num_samples = len(dataset)
            self.field_names = [field.name for field in dataset.schema.fields]
