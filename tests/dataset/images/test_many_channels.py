"""Images of up to 16 channels, as a dataset stores them and a stream delivers them."""

import numpy as np
import pytest

from stoker import ops
from stoker.dataset import open_dataset, schema, write
from stoker.dataset.verify import verify
from stoker.pipeline import pipeline
from stoker.server.rows.reference import make_spec, reference_batches


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("encoding", ["raw", "bands"])
@pytest.mark.parametrize("channels", [5, 16])
def test_stored_and_delivered(tmp_path, dtype, encoding, channels):
    image = np.random.default_rng(1).integers(0, 256, (70, 90, channels)).astype(dtype)
    field = schema.image(encoding=encoding, dtype=dtype, channels=channels)
    write(tmp_path / "d", [field], [{"image": image}])
    assert verify(tmp_path / "d").holds
    with open_dataset(tmp_path / "d") as dataset:
        out = np.empty(image.nbytes, np.uint8)
        assert np.array_equal(dataset.decode("image", 0, out), image)
    crop = pipeline(lambda sample: {"x": ops.center_crop(sample.image, size=(30, 40))})
    spec = make_spec(tmp_path / "d", crop.graph(), batch_size=1)
    ((_, batch),) = reference_batches(tmp_path / "d", crop.graph(), spec)
    assert np.array_equal(batch["x"][0], image[20:50, 25:65])
