"""The names in FFCV's `ffcv.fields.base`."""

import numpy as np

from stoker.compat.ffcv.fields.field_types import Field

ARG_TYPE = np.dtype([("", "<u1", 1024)])
"""The description of a field in a file of FFCV; Stoker does not read it."""

__all__ = ["ARG_TYPE", "Field"]
