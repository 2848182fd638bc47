"""What `stoker doctor` looks at: one function for each thing, which returns a finding.

A finding is a problem if it has a remedy. Nothing is written, no device is opened, and neither
numba nor torch is imported: their versions come from the metadata of what is installed.
"""

import glob
import importlib.metadata
import os
import platform
import resource
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from stoker.jit import numba_version
from stoker.jit.cacheroot import can_write
from stoker.jit.private import why_unsafe
from stoker.protocol import version
from stoker.protocol.errors import MORE_FILES, ResourceError, StokerError
from stoker.server.commands.readable_units import number_of, size_text
from stoker.server.daemon.descriptor_limits import session_limit
from stoker.server.settings import cgroup
from stoker.server.settings import config_loading as configuration
from stoker.server.settings.config_types import Config

LEAST_MEMORY_BYTES: Final = 2**30
LEAST_CACHE_BYTES: Final = 2**28
"""Room for compiled code that should be free."""
PACKAGES: Final = (
    "numpy",
    "numba",
    "llvmlite",
    "pyzmq",
    "msgspec",
    "pyarrow",
    "pillow",
    "simplejpeg",
)
EXTRA: Final = "pip install 'stoker[server]'"
_GPUS: Final = "/dev/nvidia[0-9]*"


class Finding(msgspec.Struct, frozen=True):
    """What was found of one thing.

    Attributes:
        name: the thing.
        found: its state, in words.
        remedy: what to change; empty: it is in order.
    """

    name: str
    found: str
    remedy: str = ""


def examine(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Return all findings about this host and this environment, as this process sees them."""
    try:
        config = configuration.load(environment=environment).config
        checked = Finding("configuration", "can be loaded")
    except StokerError as error:
        config = configuration.load(environment=_without_settings(environment)).config
        checked = Finding("configuration", error.message, "correct that value")
    checks: tuple[Callable[[], Finding], ...] = (
        cores, lambda: memory(config), memlock, lambda: open_files(config), shm, codecs,
        lambda: kernel_cache(config), lambda: compiler(environment), gpu,
    )  # fmt: skip
    return [versions(), checked, *(check() for check in checks)]


def versions() -> Finding:
    """Python, Stoker, and the packages that they need; torch if it is there."""
    found = {name: version_of(name) for name in PACKAGES}
    missing = [name for name, installed in found.items() if not installed]
    torch = version_of("torch")
    known = {**found, "torch": torch} if torch else found
    said = ", ".join(f"{name} {installed or 'missing'}" for name, installed in known.items())
    remedy = f"install {', '.join(missing)}: {EXTRA}" if missing else ""
    return Finding(
        "versions", f"stoker {version.STOKER}, python {platform.python_version()}, {said}", remedy
    )


def cores() -> Finding:
    """Cores that workers may use, and what limits them."""
    count, why = cgroup.cores()
    total = os.cpu_count() or count
    return Finding("cores", f"{count} of {total} ({why})")


def memory(config: Config) -> Finding:
    """Free memory, and how much of it the daemon may take."""
    free, limit = cgroup.room(), config.memory.limit
    found = (
        f"{size_text(free.size_bytes)} are free by {free.limited_by}; memory.limit is"
        f" {size_text(limit)}"
    )
    if free.size_bytes < LEAST_MEMORY_BYTES:
        return Finding("memory", found, "end other processes, or raise that limit")
    if limit > free.size_bytes:
        return Finding("memory", found, "lower memory.limit, or streams fail when they open")
    return Finding("memory", found)


def memlock() -> Finding:
    """Memory that may be locked; never a problem by itself.

    Only a Loader on a GPU locks memory, through the driver. NVIDIA's for Linux does not count the
    pages that it locks against this limit. A Loader warns, with the remedy, if a driver refuses.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    why = (
        "NVIDIA's driver does not count the batches that it locks"
        if gpus()
        else "not needed: there is no GPU whose driver locks batches"
    )
    return Finding("memlock", f"{_limit_text(soft)}, at most {_limit_text(hard)}; {why}")


def open_files(config: Config) -> Finding:
    """The limit on open files, and how many sessions of a daemon it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.daemon.max_sessions
    try:
        sessions = min(session_limit(hard, config.workers.count), wanted)
    except ResourceError as error:
        return Finding("open files", f"{soft}, at most {hard}", error.message)
    found = f"{soft}, at most {hard}: enough for {number_of(sessions, 'session')}"
    if sessions < wanted:
        remedy = f"raise it for {wanted} (daemon.max_sessions): {MORE_FILES}"
        return Finding("open files", found, remedy)
    return Finding("open files", found)


def shm() -> Finding:
    """/dev/shm, which Stoker leaves alone."""
    unused = "Stoker does not use it: batches are in memory files without names"
    try:
        size = os.statvfs("/dev/shm")
    except OSError:
        return Finding("/dev/shm", f"missing; {unused}")
    return Finding("/dev/shm", f"{size_text(size.f_frsize * size.f_blocks)}; {unused}")


def codecs() -> Finding:
    """Decoders of images, each tried or asked for."""
    kinds: dict[str, Callable[[], bool]] = {
        "JPEG": _has_jpeg,
        "PNG": lambda: _pillow_has("zlib"),
        "WebP": lambda: _pillow_has("webp"),
        "TIFF": lambda: _pillow_has("libtiff"),
    }
    there = [kind for kind, is_there in kinds.items() if is_there()]
    missing = [kind for kind in kinds if kind not in there]
    remedy = f"{' and '.join(missing)} cannot be decoded: {EXTRA}" if missing else ""
    return Finding("codecs", ", ".join(there) or "none", remedy)


def kernel_cache(config: Config) -> Finding:
    """The folder of compiled kernels: whether it can be written, is private, and has room."""
    root = Path(config.daemon.cache_root)
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    files = [path for path in root.rglob("*") if path.is_file()] if root.is_dir() else []
    free = shutil.disk_usage(there).free
    found = (
        f"{root}: {number_of(len(files), 'file')}, {size_text(sum(_sizes(files)))},"
        f" {size_text(free)} free"
    )
    choose = "choose another folder: daemon.cache_root, or XDG_CACHE_HOME"
    if not can_write(root):
        return Finding("kernel cache", f"{found}; it cannot be written", choose)
    if (why := why_unsafe(root)) is not None:
        return Finding("kernel cache", f"{found}; {why}", choose)
    if free < LEAST_CACHE_BYTES:
        return Finding("kernel cache", found, f"free {size_text(LEAST_CACHE_BYTES)}, or {choose}")
    return Finding("kernel cache", found)


def compiler(environment: Mapping[str, str]) -> Finding:
    """Whether numba compiles, and is a release that Stoker's tests ran with."""
    installed = version_of("numba")
    if environment.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return Finding("compiler", "NUMBA_DISABLE_JIT is set", "unset it: nothing can be compiled")
    if installed and not numba_version.supports(installed):
        found = f"numba {installed} was not tested with this Stoker: it compiles slowly"
        return Finding("compiler", found, f"pip install '{numba_version.SUPPORTED}'")
    return Finding("compiler", f"numba {installed or 'is missing, see versions'}")


def gpu() -> Finding:
    """GPUs that trainings could use, and whether torch can; no driver is asked."""
    count, torch = len(gpus()), version_of("torch")
    if not torch:
        return Finding("gpu", f"{count}; torch is not installed, so batches are NumPy arrays")
    if count and "+cpu" in torch:
        found = f"{count}, but torch {torch} has no CUDA"
        return Finding("gpu", found, "install a torch with CUDA: https://pytorch.org")
    return Finding("gpu", f"{count or 'none'}, torch {torch}")


def gpus() -> list[str]:
    """Return the device files of NVIDIA GPUs that this process can see."""
    return sorted(glob.glob(_GPUS))


def version_of(package: str) -> str:
    """Return the version of an installed package; empty: it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("STOKER_")}


def _limit_text(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else size_text(limit)


def _sizes(files: list[Path]) -> list[int]:
    found = []
    for path in files:
        try:
            found.append(path.stat().st_size)
        except OSError:  # removed meanwhile
            continue
    return found


def _has_jpeg() -> bool:
    try:
        import numpy as np  # noqa: PLC0415 - another finding says that it is missing
        import simplejpeg  # noqa: PLC0415

        data = simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8))
        return bool(simplejpeg.decode_jpeg(data).shape == (8, 8, 3))
    except ImportError:
        return False


def _pillow_has(feature: str) -> bool:
    try:
        from PIL import features  # noqa: PLC0415 - another finding says that it is missing
    except ImportError:
        return False
    return bool(features.check(feature))
