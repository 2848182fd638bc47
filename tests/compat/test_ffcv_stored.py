"""Machine code of operations is stored: a second process compiles nothing."""

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
    import sys

    sys.path.insert(0, {here!r})
    import numpy as np
    from numba.core import event

    import kinds_arrays
    from stoker.compat.ffcv import DatasetWriter, Loader
    from stoker.compat.ffcv.fields import NDArrayField
    from stoker.compat.ffcv.fields.decoders import NDArrayDecoder
    from stoker.compat.ffcv.transforms import ToTensor

    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (16, 12, 12, 3)).astype(np.uint8)
    field = NDArrayField(np.dtype("uint8"), images.shape[1:])
    DatasetWriter({path!r}, {{"image": field}}).from_indexed_dataset([(one,) for one in images])
    compiled = event.RecordingListener()
    event.register("numba:compile", compiled)
    for operation in (kinds_arrays.Jittered(), kinds_arrays.{other}()):
        lines = {{"image": [NDArrayDecoder(), operation, ToTensor()]}}
        batches = [batch for (batch,) in Loader({path!r}, 8, seed=1, pipelines=lines)]
        print(int(sum(batch.sum() * (n + 1) for n, batch in enumerate(batches))))
    print("compiled", len(compiled.buffer))
"""


def test_a_second_process_compiles_nothing(python, user_folder, tmp_path):
    def run(other):
        script = SCRIPT.format(here=str(user_folder), path=str(tmp_path / "a.beton"), other=other)
        *sums, last = python(script, cache=tmp_path / "kernels", warm=True).splitlines()
        return sums, int(last.split()[1])

    first, second = run("FlippedSeeded"), run("FlippedSeeded")
    assert first[0] == second[0]
    assert first[1] > 0
    assert second[1] == 0
