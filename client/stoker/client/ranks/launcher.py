"""The key of a job, by which a daemon knows the ranks of one job: from what its launcher says.

Each launcher has variables that name the job, alike for all its processes and unlike those of any
other job. Two jobs must never be taken for one, so there is no key, and nothing is compared, where
that is in doubt:

- The world size of the loader is not that of the launcher: several jobs may share its processes.
- The process that started this one has the same variables: it is a rank, or a script of one, and
  may start several trainings.
- The loader is made in another thread than the main one: the order of threads is not that of ranks.

A launcher that restarts ranks says how often, so ranks of before are not compared with those after.
With a loopback address a job has one host, and one launcher starts all its ranks: its number tells
the job from one that ranks are left of, although their launcher was killed.
"""

import hashlib
import ipaddress
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stoker.client.ranks.place import LoaderPlace

KEY_BYTES: Final = 16


@dataclass(frozen=True)
class Launcher:
    """What a launcher tells its processes.

    Attributes:
        size: variable with the number of processes.
        rank: variable with the number of this process.
        needed: variables that name the job, all of which must be there.
        more: variables that also do, if they are there.
        host: the variable of `needed` with an address; if that is a loopback address, the job has
            one host, and others may use the same address.
    """

    size: str
    rank: str
    needed: tuple[str, ...]
    more: tuple[str, ...] = ()
    host: str = ""

    def says(self, environment: Mapping[str, str]) -> list[str]:
        """Return the values of the variables; empty for those that are missing."""
        names = (*self.needed, *self.more, self.size, self.rank)
        return [environment.get(name, "") for name in names]


_TORCHRUN: Final = Launcher(
    "WORLD_SIZE", "RANK", ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"),
    ("TORCHELASTIC_RESTART_COUNT",), "MASTER_ADDR",
)  # fmt: skip
_MPI_SIZE: Final = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")
_MPI: Final = Launcher(*_MPI_SIZE, ("PMIX_NAMESPACE",), ("OMPI_MCA_orte_hnp_uri",))
_OLDER_MPI: Final = Launcher(*_MPI_SIZE, ("OMPI_MCA_ess_base_jobid",), ("OMPI_MCA_orte_hnp_uri",))
_SLURM: Final = Launcher(
    "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("SLURM_CLUSTER_NAME", "SLURM_RESTART_COUNT"),
)  # fmt: skip
LAUNCHERS: Final = (_TORCHRUN, _MPI, _OLDER_MPI, _SLURM)
"""The innermost one comes first: SLURM may start one `torchrun` for each host."""


def job_key(place: LoaderPlace, world_size: int) -> bytes:
    """Return the key of the job for a loader, 16 bytes; empty if it is to be compared with none."""
    if world_size == 1 or threading.current_thread() is not threading.main_thread():
        return b""
    launcher = _launcher(os.environ)
    if launcher is None or os.environ.get(launcher.size) != str(world_size):
        return b""
    if launcher.says(_parents()) == launcher.says(os.environ):
        return b""
    words = [place.name, *launcher.says(os.environ)[:-1]]  # all but the rank
    if launcher.host and _is_loopback(os.environ[launcher.host]):
        words += _this_host()
    return hashlib.blake2b("\0".join(words).encode(), digest_size=KEY_BYTES).digest()


def _launcher(environment: Mapping[str, str]) -> Launcher | None:
    for launcher in LAUNCHERS:
        if all(environment.get(name) for name in launcher.needed):
            return launcher
    return None


def _parents() -> dict[str, str]:
    """Return the environment with which the parent began; empty if it belongs to another user."""
    try:
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:
            data = file.read()
    except OSError:
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in data.split(b"\0") if b"=" in entry)
    return {name: value for name, _, value in pairs}


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address.partition(".")[0] == "localhost"


def _this_host() -> list[str]:
    """Return what tells this host, its network and the launcher from others."""
    said = [str(os.getppid())]
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            said.append(file.read().strip())
        said.append(str(os.stat("/proc/self/ns/net").st_ino))
    except OSError:
        said.append(os.uname().nodename)
    return said
