"""clip against NumPy, and CT images through a Loader."""

import numpy as np
import pytest

from stoker import ops
from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import Clip, ParameterError
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError

pytestmark = pytest.mark.usefixtures("forked_private_daemons")


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("uint8", 20, 200),
        ("uint8", 0, 255),
        ("uint16", 90, 60000),
        ("int16", -1024, 3000),
        ("float32", -1000.3, 400),
    ],
)
def test_it_is_numpys(run_op, arithmetic, dtype, low, high):
    rng = np.random.default_rng(0)
    image = (rng.random((17, 23, 3)) * 70000 - 5000).astype("f4")
    if dtype == "float32":
        image[0, :4, 0] = np.nan, np.inf, -np.inf, -0.0
    else:
        image = image.clip(np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    (out,) = run_op(Clip(low, high), [("image", image)], arithmetic=arithmetic).outputs
    assert out.dtype == image.dtype
    expected = np.clip(image, image.dtype.type(low), image.dtype.type(high))
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("low", "high"), [(2, 1), (float("nan"), 1), (0, float("inf")), ("a", 1), (0, None)]
)
def test_bounds_that_cannot_be(low, high):
    with pytest.raises(ParameterError, match=r"clip: expected (low|high) to be a number from"):
        Clip(low, high)


def test_ct_images_through_a_loader(tmp_path):
    """Bounds in Hounsfield units; what was clipped to 0 to 1 is an image that color ops take."""
    scan = np.linspace(-1000, 2000, 12 * 16, dtype="f4").reshape(12, 16, 1)
    image = schema.image(encoding="raw", dtype="float32", channels=1)
    levels = schema.image("levels", encoding="raw", channels=1)
    row = {"image": scan, "levels": (scan / 12 + 84).astype("u1")}
    write(tmp_path / "ct", [image, levels], [row])

    def delivered(**outputs):
        made = pipeline(lambda sample: {name: run(sample) for name, run in outputs.items()})
        given = {"batch_size": 1, "device": "numpy", "workers": 1}
        with Loader(str(tmp_path / "ct"), pipeline=made, **given) as loader:
            (batch,) = loader
            return {name: np.array(batch[name][0]) for name in outputs}

    def bright(image):
        return ops.brightness(image, factor_range=(1, 1), p=1.0)

    got = delivered(
        wide=lambda s: ops.clip(s.image, low=-200, high=300),
        unit=lambda s: bright(ops.clip(s.image, low=0, high=1)),
        levels=lambda s: ops.clip(s.levels, low=20, high=200),
    )
    assert np.array_equal(got["wide"], scan.clip(-200, 300))
    assert np.array_equal(got["unit"], scan.clip(0, 1))
    assert np.array_equal(got["levels"], row["levels"].clip(20, 200))
    with pytest.raises(BuildError, match=r"expects floats from 0 to 1.*ops\.window"):
        delivered(image=lambda s: bright(ops.clip(s.image, low=-200, high=300)))
    with pytest.raises(BuildError, match=r"clip: low=-1: expected .* an integer from 0 to 255"):
        delivered(image=lambda s: ops.clip(s.levels, low=-1, high=200))
    with pytest.raises(BuildError, match=r"clip: high=200\.5: expected a number that image uint8"):
        delivered(image=lambda s: ops.clip(s.levels, low=0, high=200.5))
