"""Limits of processes, threads and address space: each ends only what it concerns, and says so."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cgroups import ProcessGroup, process_group
from daemons import children
from warm import Script

from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import ResourceError

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
REFUSED = "not started: Resource temporarily unavailable; raise the limit on processes and threads"


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    with process_group() as made:
        yield made


def test_forks_that_are_refused_are_tried_again(serve, loader, expected, group, wait_for) -> None:
    daemon = serve(warm=True)
    (template,) = children(daemon.pid)
    with loader(daemon) as batches:
        found = []
        for batch in batches:
            found.append(batch_digest(batch, batch.epoch, batch.step))
            if batch.step == 0:
                group.take(template)
                for pid in children(template):
                    os.kill(pid, signal.SIGKILL)
                wait_for(lambda: daemon.log.read_text().count(REFUSED) > 1)
                group.give()
        found += [batch_digest(batch, batch.epoch, batch.step) for batch in batches]
    assert found == expected("labels", 2)
    assert children(daemon.pid) == [template], "it outlives a refused fork"
    assert daemon.stop() == 0


def test_a_template_that_cannot_be_started_is_started_later(
    serve, loader, expected, group, wait_for
) -> None:
    daemon = serve()  # one that is executed, as this one starts processes itself
    with loader(daemon) as batches:
        found = [batch_digest(batch, batch.epoch, batch.step) for batch in batches]
        group.take(daemon.pid)
        (template,) = children(daemon.pid)
        os.kill(template, signal.SIGKILL)
        refused = "the template process cannot be started: Resource temporarily unavailable"
        wait_for(lambda: refused in daemon.log.read_text())
        group.give()
        found += [batch_digest(batch, batch.epoch, batch.step) for batch in batches]
    assert found == expected("labels", 2)
    assert "unexpected_error" not in daemon.log.read_text()
    assert daemon.stop() == 0


TRAINING = """
import os, sys
from stoker.client import Loader
from stoker.protocol.errors import ResourceError
sys.path.insert(0, sys.argv[4])
group, address, dataset = sys.argv[1:4]
open(f"{group}/cgroup.procs", "w").write(str(os.getpid()))
open(f"{group}/pids.max", "w").write(open(f"{group}/pids.current").read())
for where, named in (
    (address, dict(dataset="small", pipeline="labels")),
    (dataset, dict(pipeline="robust_pipelines:labels")),
):
    try:
        Loader(where, batch_size=5, device="numpy", **named)
    except ResourceError as error:
        print(error.message)
"""


def test_a_training_at_its_limit_gets_an_error_and_lives(serve, group, small_dataset) -> None:
    """ZeroMQ alone would end it with abort()."""
    daemon = serve(warm=True)
    arguments = map(str, (group.folder, daemon.address, small_dataset, HERE))
    with Script("-c", TRAINING, *arguments, stdout=subprocess.PIPE) as script:
        lines = script.communicate(timeout=60)[0].splitlines()
    assert script.returncode == 0
    remedy = "raise the limit on processes and threads (ulimit -u, TasksMax of systemd"
    assert lines[0].startswith(
        f"a connection to the daemon: the system starts no more threads; {remedy}"
    )
    assert lines[1].startswith(
        f"the private daemon cannot be started: Resource temporarily unavailable; {remedy}"
    )


HOSTS = """
import os, sys
from stoker.client import Directory, Loader
from stoker.client.hosts.directory import Watch
from stoker.client.hosts.returns import Returns
from stoker.protocol.errors import ConnectError, ResourceError
group, address = sys.argv[1:]
class One(Directory):
    def addresses(self):
        return [address]
def refused(make):
    try:
        make()
    except ResourceError as error:
        print(error.message)
tried, came = [], os.pipe()
def connect(address):
    tried.append(address)
    os.write(came[1], b"x")
    raise ConnectError("refused")
open(f"{group}/cgroup.procs", "w").write(str(os.getpid()))
open(f"{group}/pids.max", "w").write(open(f"{group}/pids.current").read())
options = dict(dataset="small", pipeline="labels", batch_size=5, device="numpy")
refused(lambda: Loader([address], **options))
refused(lambda: Loader(One(), **options))
refused(lambda: Watch(One(), [address]))
idle, returns = Returns(connect), Returns(connect)
for one in (idle, returns):
    one.expect(address)
    assert one.take() is None
idle.close()
open(f"{group}/pids.max", "w").write("max")
assert returns.take() is None and os.read(came[0], 1) and tried == [address]
returns.close()
with Loader(One(), **options) as batches:
    print(len(list(batches)))
"""


def test_a_loader_of_several_daemons_at_its_limit(serve, group) -> None:
    """Opening is refused with the limit; the search for lost daemons waits for descriptors."""
    daemon = serve(warm=True)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Script("-c", HOSTS, group.folder, daemon.address, **pipes) as script:
        said, errors = script.communicate(timeout=60)
    assert script.returncode == 0, errors
    lines, more = said.splitlines(), "the system starts no more threads; raise the limit"
    assert lines[0].startswith(f"a Loader with several daemons: {more}")
    assert lines[1] == lines[0]
    assert lines[2].startswith(f"a Loader that follows a directory: {more}")
    assert int(lines[3]) > 0
    told = f"lost daemons are not looked for yet: {more}"
    assert errors.count(told) == 2, "once for each of the two"


def test_workers_that_cannot_map_a_slab_end_its_session_alone(
    serve, loader, expected, wait_for
) -> None:
    daemon = serve(warm=True)
    with loader(daemon) as neighbor:
        found = [batch_digest(batch, batch.epoch, batch.step) for batch in neighbor]
        (template,) = children(daemon.pid)
        workers = children(template)
        with loader(daemon, "wide", batch_size=1) as large:  # built, and known to the workers
            next(iter(large))
        for pid in workers:
            wait_for(lambda pid=pid: Path(f"/proc/{pid}/maps").read_text().count("stoker-slab") < 2)
            used = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
            resource.prlimit(pid, resource.RLIMIT_AS, (used + 2**20, resource.RLIM_INFINITY))
        with (
            loader(daemon, "wide", batch_size=1) as large,
            pytest.raises(ResourceError, match=r"a worker cannot map the .*ulimit -v"),
        ):
            next(iter(large))
        found += [batch_digest(batch, batch.epoch, batch.step) for batch in neighbor]
        assert found == expected("labels", 2)
        assert children(template) == workers
        for pid in workers:
            resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        with loader(daemon, "wide", batch_size=1) as large:
            next(iter(large))
    assert daemon.stop() == 0


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_daemon_at_its_limit_ends_with_one_line(folder, small_dataset, group, most) -> None:
    """At different points of its start: log, template, sockets."""
    (group.folder / "pids.max").write_text(str(most))
    join = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group.folder / "cgroup.procs")]
    ended = subprocess.run(
        [*join, sys.executable, "-m", "stoker.server", "serve",
         f"--address=ipc://{folder}/s.sock", f"--dataset=a={small_dataset}", "--workers=1"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 75
    line = ended.stderr.splitlines()[-1]
    assert line.startswith("stoker: the ")
    assert "ulimit -u" in line
    assert "Traceback" not in ended.stderr
