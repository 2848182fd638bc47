"""The keys of a job, from the variables of its launcher: for a daemon, and for ranks of one host.

`job_key` lets a daemon know the ranks of one job, and `host_key` lets the ranks of a job on one
host share a private daemon.

Each launcher has variables that name the job, alike for all its processes and unlike those of any
other job. Two jobs must never be taken for one, so there is no key, and nothing is compared, if
that is in doubt:

- The world size of the loader is not that of the launcher: several jobs may share its processes.
- The process that started this one has the same variables: it is a rank, or a script of one, and
  may start several trainings, or workers that read for it. That is so for a process that was forked
  with them, and for one of `multiprocessing` that began with them, although Python may have set
  them in the rank itself.
- The loader is made in another thread than the main one: the order of threads is not that of ranks.

A launcher that restarts ranks counts restarts, so ranks before and after one are not compared.
With a loopback address a job has one host, and one launcher starts all its ranks: its number tells
the job from an earlier one whose ranks still run although their launcher was killed.
"""

import contextlib
import hashlib
import ipaddress
import multiprocessing
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stoker.client.ranks.call_site import CallSite
from stoker.client.ranks.forked_ranks import environment_at_fork

KEY_BYTES: Final = 16


@dataclass(frozen=True)
class Launcher:
    """The environment variables of a launcher.

    Attributes:
        size: variable with the number of processes.
        rank: variable with the number of this process.
        needed: variables that name the job, all of which must be there.
        more: variables that also do, if they are there.
        host: the variable of `needed` with an address; if that is a loopback address, the job has
            one host, and others may use the same address.
        is_parent: whether no variable names the job, but one process starts all its ranks of a
            host, and no other job.
    """

    size: str
    rank: str
    needed: tuple[str, ...]
    more: tuple[str, ...] = ()
    host: str = ""
    is_parent: bool = False

    def says(self, environment: Mapping[str, str]) -> list[str]:
        """Return the values of the variables; empty for those that are missing."""
        names = (*self.needed, *self.more, self.size, self.rank)
        return [environment.get(name, "") for name in names]


_TORCHRUN: Final = Launcher(
    "WORLD_SIZE", "RANK", ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"),
    ("TORCHELASTIC_RESTART_COUNT",), "MASTER_ADDR",
)  # fmt: skip
_ADDRESS: Final = ("MASTER_ADDR", "MASTER_PORT")
"""Variables of a program without a known launcher, for `torch.distributed`."""
_MPI_SIZE: Final = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")
_MPI: Final = Launcher(*_MPI_SIZE, ("PMIX_NAMESPACE",), ("OMPI_MCA_orte_hnp_uri",))
_OLDER_MPI: Final = Launcher(*_MPI_SIZE, ("OMPI_MCA_ess_base_jobid",), ("OMPI_MCA_orte_hnp_uri",))
_SLURM: Final = Launcher(
    "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("SLURM_CLUSTER_NAME", "SLURM_RESTART_COUNT"),
)  # fmt: skip
_HYDRA: Final = Launcher("PMI_SIZE", "PMI_RANK", ("MPI_LOCALNRANKS",), is_parent=True)
"""MPICH, Intel MPI and MVAPICH."""
LAUNCHERS: Final = (_TORCHRUN, _MPI, _OLDER_MPI, _HYDRA, _SLURM)
"""The innermost one comes first: SLURM may start one `torchrun` for each host."""


def job_key(place: CallSite, world_size: int) -> bytes:
    """Return the key of the job for a loader, 16 bytes; empty if it is to be compared with none."""
    if world_size == 1 or threading.current_thread() is not threading.main_thread():
        return b""
    launcher = _launcher(os.environ)
    if launcher is None or os.environ.get(launcher.size) != str(world_size):
        return b""
    if _is_started_by_rank(launcher):
        return b""
    words = [place.name, *launcher.says(os.environ)[:-1]]  # all but the rank
    if launcher.is_parent or (launcher.host and _is_loopback(os.environ[launcher.host])):
        words += _this_host()
    return hashlib.blake2b("\0".join(words).encode(), digest_size=KEY_BYTES).digest()


def host_key(world_size: int) -> str | None:
    """Return a key that the ranks of this job on this host share; None without a job's name.

    An interactive shell of a launcher may start several trainings, each with an address of its own,
    so the address counts in addition to the launcher. The launcher does not count if its number
    of processes is another one. Two jobs may have the same key: they then share a daemon that both
    would start.
    """
    if world_size == 1:
        return None
    address = [os.environ.get(name, "") for name in _ADDRESS]
    launcher = _launcher(os.environ, world_size)
    if launcher is None:
        return "\0".join([*address, *_host()]) if any(address) else None
    # A script between launcher and rank is another parent for each rank, but has the same address.
    is_by_parent = launcher.is_parent and not any(address)
    words = [*launcher.says(os.environ)[:-1], *address]
    return "\0".join([*words, *(_this_host() if is_by_parent else _host())])


def _is_started_by_rank(launcher: Launcher) -> bool:
    """Return whether the process that started this one has the same variables."""
    said = launcher.says(os.environ)
    if said in (launcher.says(_begun_with(os.getppid())), launcher.says(environment_at_fork())):
        return True
    began = launcher.says(_begun_with(os.getpid())) == said
    return began and multiprocessing.parent_process() is not None


def _launcher(environment: Mapping[str, str], size: int | None = None) -> Launcher | None:
    """Return the innermost launcher that names its job; with `size`, one of `size` processes."""
    for launcher in LAUNCHERS:
        if all(environment.get(name) for name in launcher.needed) and (
            size is None or environment.get(launcher.size) == str(size)
        ):
            return launcher
    return None


def _begun_with(process: int) -> dict[str, str]:
    """Return the environment that a process began with; empty if it belongs to another user."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
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
    """Return facts that distinguish this host, its network and the launcher from others."""
    said = [str(os.getppid()), *_host()]
    with contextlib.suppress(OSError):
        said.append(str(os.stat("/proc/self/ns/net").st_ino))
    return said


def _host() -> list[str]:
    """Return facts that distinguish this host from others that may share its file system."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return [file.read().strip()]
    except OSError:
        return [os.uname().nodename]
