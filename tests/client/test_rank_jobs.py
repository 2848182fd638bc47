"""Ranks that were given by hand: their launcher names the job, and the daemon compares them."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daemons import serving
from warm import Script

from stoker.client.ranks.launcher import host_key
from stoker.dataset import schema, write

pytestmark = pytest.mark.as_a_user

HERE = Path(__file__).parent
SIZE = 2
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
    "TORCHELASTIC_RESTART_COUNT": "0", "WORLD_SIZE": "2",
}  # fmt: skip
MPI = {"PMIX_NAMESPACE": "prterun-node1-4711@1", "OMPI_COMM_WORLD_SIZE": "2"}
OLDER_MPI = {"OMPI_MCA_ess_base_jobid": "2706178049", "OMPI_COMM_WORLD_SIZE": "2"}
SLURM = {"SLURM_JOB_ID": "81234", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
HYDRA = {"PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
AT_PORT = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
SLURM_SHELL = {**SLURM, "SLURM_STEP_NUM_TASKS": "1"}
"""What `srun --pty bash` leaves in an interactive shell; a training there has ranks of its own."""
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")

RANK = """
import json, os, sys, threading
sys.path.insert(0, sys.argv[1])
import rank_children
from stoker.client import Group, Loader, Shuffle
from stoker.protocol.errors import StokerError
usual, loaders = dict(os.environ), []

def make(options, address, lines):
    for name, record in (("group", Group), ("shuffle", Shuffle)):
        if isinstance(options.get(name), dict):
            options[name] = record(**options[name])
    loaded = {"Loader": Loader, "address": address, "options": options}
    exec(compile("loader = Loader(address, **options)", lines, "exec"), loaded)
    return loaded["loader"]

def said(options, address, lines, served):
    try:
        loaders.append(make(options, address, lines))
        if served:
            return loaders[-1]._connection.daemon_stream.session.address
        return loaders[-1].spec.stream_id
    except StokerError as error:
        return f"{type(error).__name__}: {error.message}"

def answer(asked):
    for loader in loaders if asked["close"] else ():
        loader.close()
    os.environ.clear()
    os.environ.update(usual | asked["environment"])
    arguments = asked["options"], asked["address"], asked["lines"], asked["served"]
    if asked["within"] in ("fork", "spawn"):
        return rank_children.opened(asked["within"], asked["options"], asked["address"])
    if asked["within"] != "thread":
        return said(*arguments)
    found = []
    thread = threading.Thread(target=lambda: found.append(said(*arguments)))
    thread.start()
    thread.join()
    return found[0]

for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
for loader in loaders:
    loader.close()
"""


class Rank:
    """A process with a rank, in which the same or other lines make loaders."""

    def __init__(self, process: subprocess.Popen, rank: int, address: str) -> None:
        self._process, self._rank, self._address = process, rank, address
        self.lines = ""

    def opens(
        self, environment: dict[str, str] = TORCHRUN, *, address: object = None, lines: str = "",
        within: str = "", close: bool = False, served: bool = False, **changes: object,
    ) -> str:  # fmt: skip
        """Return the stream id of a new loader, or with `served` the address of its daemon.

        If there is no loader, return what its error says.

        Args:
            environment: what the launcher says, without the rank.
            address: of the daemon, if not that of the module.
            lines: name of the file that makes the loader; another one for each test.
            within: "thread" if a thread of its own makes it; "fork" or "spawn" if two processes
                that are started in this way make one each, with other seeds.
            close: whether the loaders of this process are closed first.
            served: whether the address of the daemon is returned.
            changes: arguments of the loader.
        """
        options: dict[str, Any] = {
            "pipeline": "tensors", "batch_size": 8, "seed": 5, "device": "numpy",
            "rank": self._rank, "world_size": SIZE,
        }  # fmt: skip
        numbers = dict.fromkeys(RANKS, str(self._rank)) if environment else {}
        asked = {
            "environment": environment | numbers, "options": options | changes, "close": close,
            "address": address or self._address, "lines": lines or self.lines, "within": within,
            "served": served,
        }  # fmt: skip
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dest = tmp_path_factory.mktemp("rank-jobs") / "data"
    rows = [{"pixels": np.full((4, 4), n, np.uint8), "label": n % 3} for n in range(40)]
    write(dest, [schema.array("pixels", "uint8", (4, 4)), schema.label()], rows)
    return dest


@pytest.fixture(scope="module")
def address(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    flags = [f"--dataset=data={packed}", "--workers=1", f"--python-path={HERE}"]
    for name, found in (("tensors", "tensors"), ("other", "pixels_alone")):
        flags.append(f"--pipeline={name}=client_pipelines:{found}")
    with serving(tmp_path_factory.mktemp("rank-jobs-daemon"), *flags) as served:
        yield served.address


@pytest.fixture(scope="module")
def processes(address: str) -> Iterator[list[Rank]]:
    """Two ranks, and a third process."""
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(
                Script(
                    *("-c", RANK, str(HERE)),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    daemons=True,
                )
            )
            for _ in range(3)
        ]
        yield [
            Rank(process, rank, address) for process, rank in zip(started, (0, 1, 0), strict=True)
        ]
        for process in started:
            process.stdin.close()
            assert process.wait(60) == 0


@pytest.fixture
def ranks(processes: list[Rank], request: pytest.FixtureRequest) -> list[Rank]:
    for rank in processes:
        rank.lines = f"{request.node.name}.py"
    return processes


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"seed": 6}, ["seed: rank 0 has 5, rank 1 has 6"]),
        ({"batch_size": 5}, ["batch_size: rank 0 has 16, rank 1 has 10"]),
        ({"shuffle": False}, ["order: rank 0 has {", "'shuffle': False"]),
        ({"subset": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]}, ["exclude: "]),
        ({"pipeline": "other"}, ["pipeline: rank 0 has '"]),
        ({"seed": 6, "views": 2}, ["seed: rank 0 has 5, rank 1", "views: rank 0 has 1, rank 1"]),
    ],
)
def test_a_rank_whose_arguments_differ_is_refused_with_the_fields(ranks, changes, fields) -> None:
    first, second, _ = ranks
    assert len(first.opens()) == 32
    refused = second.opens(**changes)
    assert refused.startswith("UsageError: rank 1 opens another stream than rank 0 of the same job")
    for field in fields:
        assert f"\n  {field}" in refused or field in refused
    assert "give every rank the same arguments" in refused
    assert "pass rank=0, world_size=1" in refused


@pytest.mark.parametrize("launcher", [TORCHRUN, MPI, OLDER_MPI, HYDRA, SLURM])
def test_each_launcher_names_its_job(ranks, launcher) -> None:
    first, second, third = ranks
    stream = first.opens(launcher)
    assert "seed: rank 0 has 5, rank 1 has 6" in second.opens(launcher, seed=6)
    twice = third.opens(launcher, seed=7)
    assert twice.startswith("UsageError: two processes are rank 0 of one job and open different")
    assert "seed: the first has 5, this one has 7" in twice
    assert second.opens(launcher) == stream, "the second attempt is the same loader"
    assert third.opens(launcher) == stream, "a rank that starts again"


@pytest.mark.parametrize(
    ("launcher", "other", "changes"),
    [
        ({}, {}, {}),
        ({"WORLD_SIZE": "2"}, {"WORLD_SIZE": "2"}, {}),
        (TORCHRUN, {"TORCHELASTIC_RUN_ID": "trial-2"}, {}),
        (TORCHRUN, {"MASTER_PORT": "29501"}, {}),
        (TORCHRUN, {"MASTER_ADDR": "localhost"}, {}),
        (TORCHRUN, {"TORCHELASTIC_RESTART_COUNT": "1"}, {}),
        (SLURM, {"SLURM_STEP_ID": "1"}, {}),
        (SLURM, {"SLURM_RESTART_COUNT": "1"}, {}),
        (MPI, {"PMIX_NAMESPACE": "prterun-node1-4712@1"}, {}),
        ({**SLURM, **TORCHRUN}, {"TORCHELASTIC_RUN_ID": "trial-2"}, {}),
        ({**TORCHRUN, "WORLD_SIZE": "4"}, {}, {}),
        (TORCHRUN, {}, {"within": "thread"}),
        (TORCHRUN, {}, {"lines": "validation.py"}),
        (TORCHRUN, {}, {"rank": 0, "world_size": 1}),
    ],
    ids=[
        "no launcher", "size alone", "another run", "another port", "another address",
        "a restart", "another step", "put back in the queue", "another namespace",
        "torchrun within slurm", "two jobs of one launcher", "a thread", "other lines",
        "a rank by itself",
    ],
)  # fmt: skip
def test_what_may_be_another_job_is_not_compared(ranks, launcher, other, changes) -> None:
    first, second, _ = ranks
    streams = {first.opens(launcher), second.opens({**launcher, **other}, seed=6, **changes)}
    assert [len(stream) for stream in streams] == [32, 32], streams


def test_several_loaders_of_a_rank_are_compared_each_with_its_own(ranks) -> None:
    """Training and validation, made by the same lines, one after the other."""
    first, second, _ = ranks
    streams = [first.opens(seed=seed) for seed in (1, 2)]
    assert [second.opens(seed=seed) for seed in (1, 2)] == streams
    assert len(first.opens(seed=3)) == 32
    assert "seed: rank 0 has 3, rank 1 has 4" in second.opens(seed=4)


def test_a_job_is_forgotten_with_its_sessions(ranks) -> None:
    first, second, _ = ranks
    assert len(first.opens(seed=1)) == 32
    assert "seed" in second.opens(seed=2)
    assert len(first.opens(lines="elsewhere.py", close=True)) == 32
    assert len(second.opens(seed=2)) == 32


def test_members_of_groups_and_forks(ranks) -> None:
    (first, second, _), forks = ranks, {"name": "forks", "mode": "fork"}
    for options in ({"group": "mirror"}, {"group": {"name": "fork", "mode": "fork"}}):
        streams = {rank.opens(**options) for rank in (first, second)}
        assert [len(stream) for stream in streams] == [32], streams
    assert len(first.opens(group=forks, lines="a.py")) == 32
    more = {"group": forks, "seed": 9, "shuffle": {"seed": 5}}
    assert len(second.opens(lines="b.py", **more)) == 32, "another member has draws of its own"
    assert "seed: rank 0 has 5, rank 1 has 9" in second.opens(lines="a.py", **more)


def test_ranks_with_lists_of_daemons(ranks, address) -> None:
    first, second, _ = ranks
    assert len(first.opens(address=[address])) == 32
    assert "seed: rank 0 has 5, rank 1 has 6" in second.opens(address=[address], seed=6)


@pytest.mark.parametrize("launcher", [TORCHRUN, HYDRA, SLURM])
def test_ranks_of_one_host_share_a_private_daemon(ranks, packed, launcher) -> None:
    """They are compared, so they have one daemon."""
    first, second, _ = ranks
    options = {"address": str(packed), "pipeline": "client_pipelines:tensors", "workers": 1}
    launcher = {**launcher, "PYTHONPATH": str(HERE)}
    assert len(first.opens(launcher, **options)) == 32
    assert "seed: rank 0 has 5, rank 1 has 6" in second.opens(launcher, seed=6, **options)
    assert len(first.opens(lines="elsewhere.py", close=True)) == 32


@pytest.mark.parametrize(
    ("environment", "other", "same"),
    [
        (TORCHRUN, {}, True),
        (TORCHRUN, {"RANK": "1"}, True),
        (TORCHRUN, {"MASTER_PORT": "29501"}, False),
        (SLURM, {"SLURM_PROCID": "1", "SLURM_LOCALID": "1"}, True),
        (SLURM, {"SLURM_STEP_ID": "1"}, False),
        (SLURM, {"SLURM_JOB_ID": "81235"}, False),
        (MPI, {"OMPI_COMM_WORLD_RANK": "1"}, True),
        (MPI, {"PMIX_NAMESPACE": "another"}, False),
        (HYDRA, {"PMI_RANK": "1"}, True),
        (AT_PORT, {"RANK": "1"}, True),
        (AT_PORT, {"MASTER_PORT": "29501"}, False),
        ({**SLURM_SHELL, **AT_PORT}, {"RANK": "1"}, True),
        ({**SLURM_SHELL, **AT_PORT}, {"MASTER_PORT": "29501"}, False),
        ({**SLURM_SHELL, **AT_PORT}, {"MASTER_ADDR": "node1"}, False),
        ({**SLURM, **AT_PORT}, {"SLURM_PROCID": "1"}, True),
        ({**SLURM, **AT_PORT}, {"MASTER_PORT": "29501"}, False),
        ({**SLURM, **AT_PORT}, {"SLURM_STEP_ID": "1"}, False),
        ({**MPI, **AT_PORT}, {"MASTER_PORT": "29501"}, False),
        ({**OLDER_MPI, **AT_PORT}, {"MASTER_PORT": "29501"}, False),
        ({**HYDRA, **AT_PORT}, {"MASTER_PORT": "29501"}, False),
        ({**SLURM, "PMIX_NAMESPACE": "slurm.pmix.81234.0"}, {"SLURM_STEP_ID": "1"}, False),
        ({**SLURM, "PMIX_NAMESPACE": "slurm.pmix.81234.0"}, {"SLURM_PROCID": "1"}, True),
    ],
)
def test_what_names_a_job_on_a_host(monkeypatch, environment, other, same) -> None:
    for name in {*TORCHRUN, *MPI, *OLDER_MPI, *HYDRA, *SLURM, *RANKS}:
        monkeypatch.delenv(name, raising=False)
    assert host_key(2) is None
    found = []
    for said in (environment, {**environment, **other}):
        for name, value in said.items():
            monkeypatch.setenv(name, value)
        found.append(host_key(2))
    assert None not in found
    assert (found[0] == found[1]) == same
    assert host_key(1) is None


@pytest.mark.parametrize("launcher", [SLURM_SHELL, {**MPI, "OMPI_COMM_WORLD_SIZE": "4"}, HYDRA])
def test_a_launcher_of_another_size_names_no_job(monkeypatch, launcher) -> None:
    """Its processes may each be a training; without an address nothing tells them apart."""
    for name in {*TORCHRUN, *MPI, *OLDER_MPI, *HYDRA, *SLURM, *RANKS}:
        monkeypatch.delenv(name, raising=False)
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    assert host_key(8) is None


@pytest.mark.parametrize(("address", "keys"), [(AT_PORT, 1), ({}, SIZE)])
def test_ranks_of_mpich_that_scripts_start_have_the_address_in_common(address, keys) -> None:
    """`mpirun ./run.sh`: each rank has a shell of its own as its parent."""
    code = "from stoker.client.ranks.launcher import host_key; print(repr(host_key(2)))"
    found = {
        subprocess.check_output(
            ["sh", "-c", '"$0" "$@"; exit $?', sys.executable, "-c", code],
            env={**os.environ, **HYDRA, **address, "PMI_RANK": str(rank)},
        )
        for rank in range(SIZE)
    }
    assert len(found) == keys
    assert b"None\n" not in found


def test_two_trainings_of_one_shell_have_a_private_daemon_each(ranks, packed) -> None:
    first, second, third = ranks
    options = {"address": str(packed), "pipeline": "client_pipelines:tensors", "workers": 1}
    shell = {**SLURM_SHELL, **AT_PORT, "PYTHONPATH": str(HERE), "WORLD_SIZE": "2"}
    places = [
        rank.opens(environment, served=True, **options)
        for rank, environment in (
            (first, shell), (second, shell), (third, {**shell, "MASTER_PORT": "29501"}),
        )
    ]  # fmt: skip
    assert all(place.startswith("ipc://") for place in places), places
    assert places[0] == places[1]
    assert places[2] != places[0]
    for rank in ranks:
        assert len(rank.opens(lines="elsewhere.py", close=True)) == 32


PIPELINE = """
from stoker.pipeline import pipeline

@pipeline
def train(sample):
    return {{"number": sample.label + {more}}}
"""
TRAINING = """
import sys
sys.path.insert(0, sys.argv[1])
from stoker.client import Loader
with Loader(sys.argv[2], pipeline="checked_out:train", batch_size=8, rank=int(sys.argv[3]),
            world_size=2, shuffle=False, workers=1, device="numpy") as loader:
    print(min(min(batch.number.tolist()) for batch in loader), flush=True)
    sys.stdin.read()
"""


def test_two_checkouts_have_a_private_daemon_each(packed, tmp_path) -> None:
    """Both have a pipeline of the same name, and run at the same address at once."""
    with contextlib.ExitStack() as stack:
        started = []
        for rank, (name, more) in enumerate({"one": 10, "two": 20}.items()):
            (tmp_path / name).mkdir()
            (tmp_path / name / "checked_out.py").write_text(PIPELINE.format(more=more))
            started.append(
                stack.enter_context(
                    Script(
                        *("-c", TRAINING, tmp_path / name, packed, rank),
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        env={**os.environ, **AT_PORT},
                        daemons=True,
                    )
                )
            )
            if rank == 0:
                assert started[0].stdout.readline() == "10\n"
        assert started[1].stdout.readline() == "20\n"
        for process in started:
            process.stdin.close()
        assert [process.wait(60) for process in started] == [0, 0]


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_that_a_rank_starts_are_no_ranks(ranks, how) -> None:
    """Python has set the variables of the launcher in the rank itself."""
    streams = {*ranks[0].opens(within=how), *ranks[1].opens(within=how)}
    assert [len(stream) for stream in streams] == [32, 32], streams


def test_a_rank_may_make_its_loader_again(ranks) -> None:
    """Then it is one loader ahead of the others, and a later difference says what to do."""
    first, second, _ = ranks
    stream = first.opens()
    assert second.opens() == stream
    assert first.opens(close=True) == stream
    refused = second.opens(seed=6)
    assert "seed: rank 0 has 5, rank 1 has 6" in refused
    assert "If one rank closed its loader and made it again, do so on every rank" in refused


def test_processes_that_a_rank_starts_may_be_several_jobs(address, tmp_path) -> None:
    """Two trials in a row, or at once, have all that the launcher said to their parent."""
    trial = tmp_path / "trial.py"
    trial.write_text(
        "import sys\nfrom stoker.client import Loader\n"
        "loader = Loader(sys.argv[1], pipeline='tensors', batch_size=8, rank=int(sys.argv[2]),\n"
        "                world_size=2, device='numpy', seed=int(sys.argv[2]))\n"
        "print(loader.spec.stream_id, flush=True)\nsys.stdin.read()\nloader.close()\n"
    )
    started = [
        subprocess.Popen(
            ["sh", "-c", '"$0" "$@"; exit $?', sys.executable, trial, address, str(rank)],
            env={**os.environ, **SLURM, "SLURM_PROCID": str(rank)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(SIZE)
    ]  # fmt: skip
    try:
        streams = {process.stdout.readline().strip() for process in started}
        assert [len(stream) for stream in streams] == [32, 32]
    finally:
        for process in started:
            process.communicate(timeout=60)
    assert [process.returncode for process in started] == [0, 0]
