"""The whole daemon with real workers: delivery, hostile peers, shutdown, private daemons."""

import collections
import os
import socket

import numpy as np
import pytest
import zmq
from PIL import Image

from stoker.client import Loader
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.errors import PeerError

pytestmark = pytest.mark.slow
SAMPLES = 24


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A packed dataset of 24 PNG images in two classes, and a pipeline that only reads labels."""
    root = tmp_path_factory.mktemp("e2e")
    for number in range(SAMPLES):
        folder = root / "source" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(folder / f"{number:02}.png")
    pack(root / "source", root / "packed", Options(workers=1))
    (root / "e2e_pipelines.py").write_text(
        "from stoker.pipeline import pipeline\n\n\n"
        "@pipeline\ndef labels(sample):\n    return {'label': sample.label}\n"
    )
    return root


@pytest.fixture
def serve_labels(serve, packed):
    def begin(*flags, warm=True):
        return serve(
            f"--dataset=shapes={packed}/packed",
            "--pipeline=labels=e2e_pipelines:labels",
            f"--python-path={packed}",
            *flags,
            warm=warm,
        )

    return begin


def loader(served, **changes) -> Loader:
    options = {"dataset": "shapes", "pipeline": "labels", "batch_size": 4, "device": "numpy"}
    return Loader(served.address, **{**options, **changes})


def delivered_for_ever(batches):
    while True:
        yield from batches


def test_every_sample_once_an_epoch_while_peers_misbehave(serve_labels, folder):
    served = serve_labels(warm=False)
    context = zmq.Context()
    hostile = context.socket(zmq.DEALER)
    hostile.setsockopt(zmq.LINGER, 0)
    hostile.connect(served.address)
    idle = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(20)]
    try:
        for sock in idle:
            sock.connect(served.address.removeprefix("ipc://") + ".fd")
        with loader(served) as batches:
            for _ in range(3):
                ids, labels = [], []
                for batch in batches:
                    hostile.send(os.urandom(100))
                    ids += batch["index"].tolist()
                    labels += batch["label"].tolist()
                assert sorted(ids) == list(range(SAMPLES))
                assert sorted(labels) == [0] * 12 + [1] * 12
    finally:
        for sock in idle:
            sock.close()
        context.destroy(linger=0)
    assert served.stop() == 0
    errors = served.log.read_text()
    assert "message_refused" in errors
    assert "Traceback" not in errors
    assert os.listdir(folder / "run") == []


def test_sigterm_in_the_middle_gives_the_client_a_typed_error(serve_labels, folder):
    served = serve_labels()
    with loader(served) as batches:
        delivered = iter(batches)
        next(delivered)
        served.process.terminate()
        with pytest.raises(PeerError):
            collections.deque(delivered_for_ever(batches), maxlen=0)
    assert served.wait() == 0
    assert os.listdir(folder / "run") == []


def test_a_private_daemon_ends_with_its_last_client(serve_labels):
    served = serve_labels("--exit-with-last-client")
    with loader(served) as first:
        next(iter(first))
        with loader(served, seed=1) as second:
            next(iter(second))
        next(iter(first))
        assert served.process.poll() is None
    assert served.wait() == 0
