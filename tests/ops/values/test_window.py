"""window against NumPy, and the Hounsfield units of a CT image through a Loader."""

import numpy as np
import pytest

from stoker import ops
from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import ParameterError, Window
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError

pytestmark = pytest.mark.usefixtures("forked_private_daemons")


def reference(image: np.ndarray, center: float, width: float) -> np.ndarray:
    """The line from the lower end of the window to the upper one, flat outside of it."""
    ends = center - width / 2, center + width / 2
    return np.interp(image.astype(np.float64), ends, (0.0, 1.0))


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
@pytest.mark.parametrize(("center", "width"), [(40, 400), (-600, 1500), (0.5, 1e-6), (0, 1e9)])
def test_it_is_a_line_between_the_ends(run_op, arithmetic, center, width):
    numbers = np.concatenate([np.linspace(-1500, 3000, 997), [center, center - width / 2]])
    image = numbers.astype(np.float32).reshape(27, 37, 1)
    (out,) = run_op(Window(center, width), [("image", image)], arithmetic=arithmetic).outputs
    assert out.dtype == np.float32
    expected = reference(image, center, width)
    assert np.abs(out - expected).max() <= 1e-6
    assert (out.min(), out.max()) == (expected.min().astype("f4"), expected.max().astype("f4"))


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
def test_other_numbers(run_op, photo, arithmetic):
    odd = np.array([np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 40], "f4").reshape(2, 3, 1)
    (out,) = run_op(Window(40, 400), [("image", odd)], arithmetic=arithmetic).outputs
    assert out.ravel().tolist() == [0, 1, 0, 1, 0, 0.5]
    for dtype, less in (("uint8", 0), ("uint16", 0), ("int16", 100)):
        image = (photo.astype("i4") - less).astype(dtype)
        op = Window(100 - less, 50)
        (out,) = run_op(op, [("image", image)], arithmetic=arithmetic).outputs
        assert np.abs(out - reference(photo, 100, 50)).max() <= 1e-6


@pytest.mark.parametrize("change", [{"width": 0}, {"width": -5}, {"center": 1e10}, {"width": "a"}])
def test_windows_that_cannot_be(change):
    with pytest.raises(ParameterError, match=f"window: expected {next(iter(change))} to be"):
        Window(**{"center": 40, "width": 400, **change})


def test_hounsfield_units_through_a_loader(tmp_path):
    """The ops of color refuse them, name window, and take what it makes."""
    scan = np.linspace(-1000, 2000, 12 * 16, dtype="f4").reshape(12, 16, 1)
    field = schema.image(encoding="raw", dtype="float32", channels=1)
    write(tmp_path / "ct", [field], [{"image": scan}])

    @pipeline
    def windowed(sample):
        image = ops.window(sample.image, center=40, width=400)
        return {"image": ops.brightness(image, factor_range=(1, 1), p=1.0)}

    @pipeline
    def clipped(sample):
        return {"image": ops.brightness(sample.image)}

    given = {"batch_size": 1, "device": "numpy", "workers": 1}
    with Loader(str(tmp_path / "ct"), pipeline=windowed, **given) as loader:
        (batch,) = loader
        assert np.abs(batch.image[0] - reference(scan, 40, 400)).max() <= 1e-6
    with pytest.raises(BuildError, match=r"ops\.window\(image, center=, width=\)"):
        Loader(str(tmp_path / "ct"), pipeline=clipped, **given)

    def scaled(image):
        return ops.normalize(image, mean=(500,), std=(300,), layout="HWC")

    twice = pipeline(lambda s: {"image": ops.window(scaled(s.image), center=0, width=2)})
    with pytest.raises(
        BuildError, match=r"window expects the image.s own numbers, .* call window before norm"
    ):
        Loader(str(tmp_path / "ct"), pipeline=twice, **given)
