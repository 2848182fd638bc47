"""A connection to another host that is cut: an error at once, or the same bytes after a while."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import daemons
import numpy as np
import pytest
from proxy import BATCHES, RECORDS, Proxy

from stoker.client import Connection, Loader
from stoker.dataset import schema, write
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.errors import DaemonLostError
from stoker.protocol.remote.tcp import tcp_address

HERE = Path(__file__).parent
ROWS = 40
OPTIONS = {"dataset": "data", "pipeline": "plain", "device": "numpy", "seed": 5, "batch_size": 4}
CUTS = pytest.mark.parametrize(
    "ports", [(RECORDS,), (BATCHES,), (RECORDS, BATCHES)], ids=["records", "batches", "both"]
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    root = tmp_path_factory.mktemp("cuts")
    values = np.random.default_rng(3).integers(0, 255, (ROWS, 100, 100), np.uint8)
    rows = [{"pixels": value, "label": number % 3} for number, value in enumerate(values)]
    write(root / "data", [schema.array("pixels", "uint8", (100, 100)), schema.label()], rows)
    folder = root / "d"
    folder.mkdir(mode=0o700)
    daemon = daemons.Daemon(
        folder, "--tcp=tcp://127.0.0.1:0", "--insecure", f"--dataset=data={root}/data",
        f"--python-path={HERE}", "--pipeline=plain=client_pipelines:tensors", "--workers=1",
        warm=True,
    )  # fmt: skip
    try:
        yield SimpleNamespace(ipc=daemon.address, tcp=tcp_address(daemon.ready["tcp"]))
        assert daemon.stop() == 0, daemon.log.read_text()
        assert "Traceback" not in daemon.log.read_text(), daemon.log.read_text()
    finally:
        daemon.close()


@pytest.fixture
def proxy(served) -> Iterator[Proxy]:
    with Proxy(served.tcp) as made:
        yield made


def digest(batch) -> str:
    return batch_digest(digest_parts(batch), batch.epoch, batch.step)


@CUTS
def test_a_cut_is_a_lost_daemon(served, proxy, ports) -> None:
    with (
        Loader(proxy.address, **OPTIONS) as loader,
        Loader(served.ipc, **OPTIONS) as other,
    ):
        batches = iter(loader)
        next(batches)
        proxy.cut(*ports)
        with pytest.raises(DaemonLostError, match=f"the daemon at {proxy.address} went away"):
            [list(batches)] + [list(loader) for _ in range(100)]
        assert len(list(other)) == len(other)


@CUTS
def test_with_reconnect_s_no_byte_is_lost(served, proxy, ports) -> None:
    with Loader(served.ipc, **OPTIONS) as loader:
        expected = [digest(batch) for _ in range(4) for batch in loader]
    found = []
    with Loader(
        proxy.address, **OPTIONS, prefetch=2, connection=Connection(reconnect_s=60)
    ) as loader:
        for epoch in range(4):
            for batch in loader:
                found.append(digest(batch))
                if epoch and batch.step == 4:
                    proxy.cut(*ports)
        assert loader.statistics().reconnects == 3
    assert found == expected


@CUTS
def test_with_several_daemons_the_others_go_on(served, proxy, ports) -> None:
    with Loader(served.ipc, **OPTIONS) as loader:
        expected = [digest(batch) for _ in range(2) for batch in loader]
    found = []
    with Loader([served.ipc, proxy.address], **OPTIONS) as loader:
        for _ in range(2):
            for batch in loader:
                found.append(digest(batch))
                if batch.step == 4:
                    proxy.cut(*ports)
    assert found == expected


def test_a_cut_during_the_handshake(served, proxy) -> None:
    """The daemon is there, but the connection ends before WELCOME: tried again for a while."""
    with Loader(
        proxy.address, **OPTIONS, prefetch=1, connection=Connection(reconnect_s=60)
    ) as loader:
        expected = [digest(batch) for batch in loader]
        loader.set_epoch(0)
        batches = iter(loader)
        found = [digest(next(batches))]
        refused = [proxy.refuse(RECORDS, 1), proxy.refuse(BATCHES, 2)]
        proxy.cut(RECORDS, BATCHES)
        assert found + [digest(batch) for batch in batches] == expected
        assert all(done.is_set() for done in refused)
        assert loader.statistics().reconnects == 1


@pytest.mark.parametrize("several", [False, True], ids=["one address", "a list"])
@pytest.mark.parametrize("idle", [False, True])
def test_a_proxy_may_end_handshakes_until_its_daemon_is_back(
    served, proxy, several, idle, caplog
) -> None:
    """ZeroMQ tries by itself while the training computes, then the loader connects."""
    with Loader(served.ipc, **OPTIONS) as loader:
        expected = [digest(batch) for batch in loader]
    where = [proxy.address] if several else proxy.address
    with Loader(where, **OPTIONS, prefetch=1, connection=Connection(reconnect_s=60)) as loader:
        batches = iter(loader)
        found = [digest(next(batches))]
        done = proxy.refuse(RECORDS, 6)
        proxy.cut(RECORDS)
        assert not idle or done.wait(60)
        found += [digest(batch) for batch in batches]
        assert loader.statistics().reconnects == 1
    assert found == expected
    assert "is left out" not in caplog.text
