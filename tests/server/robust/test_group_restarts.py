"""A group with a size, whose members come late, not at all, or back to another daemon."""

import contextlib
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from loading import digest

from stoker.protocol.errors import DaemonLostError, PeerError

pytestmark = pytest.mark.slow
EPOCHS = 3


@pytest.mark.parametrize("mode", ["mirror", "fork"])
def test_the_member_that_is_left_goes_on_with_the_next_daemon(serve, loader, expected, mode):
    """It had begun together with another one, which has ended: nobody is waited for again."""
    alone = expected("labels", EPOCHS)
    options = {"group": "sweep", "group_size": 2, "mode": mode, "prefetch": 1, "reconnect_s": 120}
    daemon = serve(warm=True)
    with contextlib.ExitStack() as stack:
        stays, leaves = (stack.enter_context(loader(daemon, **options)) for _ in range(2))
        loop, other = iter(stays), iter(leaves)
        with ThreadPoolExecutor(2) as threads:  # the first batch waits for both
            assert list(threads.map(lambda one: digest(next(one)), (loop, other))) == alone[:1] * 2
        leaves.close()
        daemon.stop(signal.SIGKILL)
        again = serve(warm=True)
        found = [digest(batch) for batch in loop]
        found += [digest(batch) for _ in range(1, EPOCHS) for batch in stays]
        assert found == alone[1:]
        assert stays.statistics().reconnects == 1
    daemon.logged("group_waits")
    assert "group_waits" not in again.log.read_text()


@pytest.mark.parametrize(
    ("more", "error"), [({}, PeerError), ({"reconnect_s": 1}, DaemonLostError)]
)
def test_a_first_batch_that_does_not_come_names_the_group(serve, loader, more, error):
    """The daemon would begin without the others after a minute; this one waits for a second."""
    daemon = serve(warm=True)
    with (
        loader(daemon, group="sweep", group_size=3, timeout_s=1, **more) as alone,
        pytest.raises(error, match="first batch of group 'sweep' waits for 3 members"),
    ):
        next(iter(alone))
    waits = daemon.logged("group_waits")
    assert "members=1 expected=3" in waits
