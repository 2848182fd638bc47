"""Samples that changed on the disk are bad samples, by default where images are decoded."""

import json

import law_pipelines
import numpy as np
import pytest
from law_rig import encoded

from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write
from stoker.protocol.errors import SampleError

pytestmark = pytest.mark.slow

ROWS, B, BAD = 24, 8, {3, 10, 17}
STREAM = {"pipeline": "mixed", "dataset": "changed", "seed": 6, "global_batch_size": B}
WHY = "its stored bytes no longer have the check that they were packed with"


@pytest.fixture
def changed(tmp_path, photographs):
    """Photographs with masks; in three of them one bit of a quantization table is another."""
    rows = []
    for number in range(ROWS):
        cut = photographs[number % len(photographs)][5:160, 9 : 150 + number]
        mask = (cut.astype(int).sum(2) // 192).astype(np.uint8)
        rows.append({"image": encoded(cut, "JPEG"), "mask": mask, "label": number % 2})
    dest = tmp_path / "changed"
    write(dest, [schema.image(), schema.mask(encoding="bands"), schema.label()], rows)
    with open_dataset(dest) as dataset:
        for number in BAD:
            file, offset = dataset.locate("image", number)
            table = bytes(dataset.read("image", number)).index(b"\xff\xdb") + 9
            with (dest / file.name).open("r+b") as data:
                data.seek(offset + table)
                byte = data.read(1)[0]
                data.seek(offset + table)
                data.write(bytes([byte ^ 1]))
    return dest


@pytest.mark.as_a_user
def test_rows_that_changed_follow_the_policy(daemon, changed, law, tmp_path):
    graph, folder = law_pipelines.mixed.graph(), tmp_path / "bad"
    spec = {"batch_size": B, "seed": STREAM["seed"]}
    spec = {**spec, "on_error": "replace"}
    unchecked = law.reference(changed, graph, range(1), integrity="off", **spec)
    checked = law.reference(changed, graph, range(1), **spec)
    assert checked != unchecked
    more = f"[bad_samples]\nfolder = {json.dumps(str(folder))}"
    with daemon(2, datasets={"changed": changed}, more=more) as running:
        given = {**STREAM, "on_error": "replace"}
        assert law.delivered(running.address, range(1), **given) == checked
        with Loader(running.address, device="numpy", **given) as loader:
            batch = next(batch for batch in loader if set(batch.requested.tolist()) & BAD)
            assert not set(batch.index.tolist()) & BAD
            for row in range(B):  # mixed with partners, which are checked too
                for output in loader.replay_row(batch, row).outputs:
                    assert output.array.tobytes() == batch[output.name][row].tobytes()
        with (
            Loader(running.address, device="numpy", **STREAM) as loader,
            pytest.raises(SampleError, match=WHY),
        ):
            list(loader)
    (file,) = folder.iterdir()
    told = {line["id"]: line["reason"] for line in map(json.loads, file.read_text().splitlines())}
    assert told == dict.fromkeys(BAD, WHY)
