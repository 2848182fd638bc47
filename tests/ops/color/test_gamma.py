"""gamma against scikit-image's adjust_gamma, rounded, and its draws."""

import numpy as np
import pytest
from skimage import exposure

from stoker.ops import Gamma


@pytest.mark.parametrize("power", [0.1, 0.45, 1.0, 1.7, 2.2, 16.0])
def test_gamma_is_scikit_images(run_op, as_record, noise, power):
    image = noise((64, 65, 3))
    image.reshape(-1)[:256] = np.arange(256)
    record = as_record(Gamma.record)
    record["apply"], record["gamma"] = 1, power
    got = run_op(Gamma(), [("image", image)], record=record).outputs[0]
    exact = exposure.adjust_gamma(image / 255.0, power) * 255.0
    assert np.abs(got - exact).max() <= 0.5 + 1e-9
    if power == 1.0:
        assert (got == image).all()
