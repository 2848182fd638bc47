"""The names in FFCV's `ffcv.fields.base`."""

import numpy as np

from stoker.compat.ffcv.fields.fields import Field

ARG_TYPE = np.dtype([("", "<u1", 1024)])
"""What a field stores about itself in a file of FFCV; nothing reads it here."""

__all__ = ["ARG_TYPE", "Field"]
