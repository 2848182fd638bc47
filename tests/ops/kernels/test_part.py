"""The source pixels that a part of a resize needs."""

import numpy as np
import pytest

from stoker.ops.kernels.nearest import fill_nearest
from stoker.ops.kernels.part import source_range


@pytest.mark.parametrize(("size_in", "size_out"), [(122, 7), (14, 5), (164, 10), (78, 9), (5, 8)])
def test_nearest_reads_inside_of_its_range(size_in, size_out):
    """Output 3 of 7 from 122 pixels shows pixel 61, though 3.5 * (122 / 7) is just below 61."""
    sources = np.empty(size_out, np.uint64)
    fill_nearest(size_in, 0, 1, sources)
    for first in range(size_out):
        for count in range(1, size_out - first + 1):
            low, end = source_range(size_in, size_out, first, count, 0.0)
            assert 0 <= low <= sources[first]
            assert sources[first + count - 1] < end <= size_in
