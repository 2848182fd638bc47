"""A full disk of kernels: they are compiled again, and nothing else happens."""

import subprocess

import pytest

pytestmark = pytest.mark.slow
# A file system of its own, in a mount namespace of its own: this needs root.
ALONE = ["unshare", "--mount", "sh", "-c"]


def may_mount(folder) -> bool:
    mount = 'mount -t tmpfs -o size=64k none "$0"'
    done = subprocess.run([*ALONE, mount, str(folder)], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("options", ["size=64k", "size=64k,nr_inodes=3"])
def test_kernels_that_cannot_be_stored_only_cost_time(serve, loader, folder, options, caplog):
    kernels = folder / "kernels"
    kernels.mkdir(mode=0o700)
    if not may_mount(kernels):
        pytest.skip("this user may not mount a file system")
    run = f'mount -t tmpfs -o mode=700,{options} none "$0" && exec "$@"'
    settings = {
        "STOKER_DAEMON_CACHE_ROOT": str(kernels),
        "STOKER_WORKERS_CLAIM_DEADLINE_S": "0.5",
    }
    daemon = serve(prefix=[*ALONE, run, str(kernels)], environment=settings)
    with loader(daemon, timeout_s=300.0) as batches:
        assert [batch.step for batch in batches] == [0, 1]
    notes = [record.message for record in caplog.records if record.name == "stoker.client"]
    assert [note for note in notes if "kernels are compiled again by each process" in note] == notes
    assert len(notes) == 1
    log = daemon.log.read_text()
    assert log.count("kernels_not_stored") == 1
    assert "worker_killed" not in log
    assert daemon.stop() == 0
