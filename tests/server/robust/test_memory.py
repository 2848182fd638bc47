"""Memory that workers need for a pipeline counts against `memory.limit` when a stream opens."""

import io
import os
import re
import signal
import threading
from pathlib import Path

import pytest
from asking import to_build
from daemons import children, state
from PIL import Image

from stoker.dataset import schema, write
from stoker.protocol.errors import ResourceError
from stoker.server.work.work_records import BuildResult
from stoker.server.workers.builder import build

pytestmark = pytest.mark.slow


@pytest.mark.as_a_user
def test_a_pipeline_that_needs_too_much_is_refused_and_its_op_is_named(serve, loader):
    daemon = serve("--memory-session-limit=40MiB", warm=True)
    source = Path(__file__).with_name("robust_pipelines.py")
    line = (
        source.read_text()
        .splitlines()
        .index("    large = ops.resize(sample.image, size=(20000, 20000))")
    )
    with pytest.raises(ResourceError) as caught:
        loader(daemon, "huge")
    message = caught.value.message
    assert "for decoded images and values between its steps" in message
    assert f"resize ({source}:{line + 1}) needs the most" in message
    assert caught.value.details["needed_bytes"] >= 2 * 3 * 20000**2
    line = daemon.logged("request_refused")
    assert "dataset=small stream=- request=OPEN pipeline=huge code=resource" in line
    assert "needs the most" in line
    numbers = r"needed \d+ bytes .* allowed 41943040; .* raise memory.session_limit of the daemon"
    with pytest.raises(ResourceError, match=numbers):
        loader(daemon, "wide", batch_size=1, prefetch=64)
    with loader(daemon) as fine:
        assert [batch.step for batch in fine] == [0, 1]


def test_a_worker_maps_the_pages_of_a_chunk_before_it_writes_them(serve, loader, wait_for):
    """It stops before its first row: what is mapped then was not written."""
    point = {"STOKER_TESTING_FAIL_POINTS": "worker.row:stop:1:1"}
    daemon = serve(environment=point, workers=1, warm=True)
    with loader(daemon, "wide", batch_size=4, prefetch=1) as batches:
        seen = []
        reader = threading.Thread(target=lambda: seen.append(next(iter(batches))))
        reader.start()
        (template,) = children(daemon.pid)
        stopped = []
        wait_for(
            lambda: stopped.extend(p for p in children(template) if state(p) == "T") or stopped
        )
        status = Path(f"/proc/{stopped[0]}/status").read_text()
        mapped_bytes = 1024 * int(re.search(r"RssShmem:\s+(\d+) kB", status)[1])
        os.kill(stopped[0], signal.SIGCONT)
        reader.join()
        assert mapped_bytes >= 4 * 1024 * 1024 * 3 - 4096
        assert seen.pop().image.shape == (4, 1024, 1024, 3)


def test_the_room_for_decoded_images_counts_and_the_field_is_named(tmp_path, monkeypatch):
    """A small file can hold a large image; the pipeline itself needs little."""
    file = io.BytesIO()
    Image.new("RGB", (6000, 5000)).save(file, "JPEG")
    write(
        tmp_path / "d", [schema.image(), schema.label()], [{"image": file.getvalue(), "label": 1}]
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "decoding_pipelines.py").write_text(
        "from stoker import ops\nfrom stoker.pipeline import pipeline\n\n"
        "@pipeline\ndef crops(sample):\n"
        "    return {'image': ops.center_crop(sample.image, size=32)}\n\n"
        "@pipeline\ndef labels(sample):\n    return {'label': sample.label}\n"
    )

    def built(name: str) -> BuildResult:
        return build(to_build(1, str(tmp_path / "d"), f"decoding_pipelines:{name}"))

    assert built("labels").working_bytes == 0
    crops = built("crops")
    assert crops.working_bytes >= crops.most_bytes == 6000 * 5000 * 3
    assert crops.most == "decoding the field 'image'"
