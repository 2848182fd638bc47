"""A private daemon: `stoker serve` for one job alone, started if a loader gets a dataset's path.

The daemon is started by command line (`python -P -m stoker.server serve`) in a new session, so that
Ctrl-C reaches the training script but not the daemon. It ends with its last client, which it
notices on its side socket even if that client is killed. The ranks of one job on one host share one
daemon: the key of its folder is made from the dataset's real path, the pipeline, the folders that
modules are imported from, and the job's launcher (`ranks.launcher`). A lock decides which rank
starts it (`runtime_folder`). Its log is in the folder; if the daemon fails, the end of the log
becomes part of the error.
"""

import contextlib
import errno
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import time
import warnings
import weakref
from collections.abc import Callable

import msgspec

from stoker.client.client_session import CONNECTION_DESCRIPTORS, ClientSession
from stoker.client.private.runtime_folder import RuntimeFolder, is_running
from stoker.client.ranks.launcher import host_key
from stoker.client.retrying import connect_with_retries
from stoker.protocol.descriptors import (
    MORE_PROCESSES,
    NO_PROCESS,
    await_readable,
    check_descriptors,
)
from stoker.protocol.errors import (
    BuildError,
    ConfigError,
    ConnectError,
    DatasetError,
    ResourceError,
    UsageError,
    from_record,
    refusal_kind,
)
from stoker.protocol.importing import (
    modules_of,
    warning,
    without_working_folder,
    working_folder,
)
from stoker.protocol.messages import Open
from stoker.protocol.request.option_refusals import Asked, check_combination
from stoker.protocol.spec import MAX_WORKERS, as_integer

START_TIMEOUT_S = 60.0
GRACE_S = 10.0
DATASET = "data"
PIPELINE = "main"
TAIL_BYTES = 2000
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_children: dict[str, list[subprocess.Popen[bytes]]] = {}
"""Daemons that this process started, by folder; all but the last one of a folder were replaced."""
_folders: "weakref.WeakSet[RuntimeFolder]" = weakref.WeakSet()


class PrivateDaemon:
    """A client's use of the private daemon of its job.

    Attributes:
        request: the loader's, with the names used at the private daemon.
    """

    def __init__(
        self,
        dataset: str,
        request: Open,
        workers: int | None,
        meanwhile: Callable[[], None] = lambda: None,
        name: str = "",
    ) -> None:
        """Check the arguments; starts nothing yet.

        Args:
            dataset: path of the dataset.
            request: of the loader.
            workers: number of worker processes; None lets the daemon choose.
            meanwhile: called while a daemon starts, which takes seconds.
            name: the loader's, for the daemon's log.

        Raises:
            UsageError: `dataset`, `pipeline` or `workers` do not go with a path.
        """
        self.request, self._code = _private_request(request)
        number = as_integer(workers)
        if workers is not None and (number is None or not 1 <= number <= MAX_WORKERS):
            raise UsageError(
                f"workers={workers!r}: expected an integer from 1 to {MAX_WORKERS}, or None"
            )
        self._dataset = dataset
        self._workers = number
        self._meanwhile = meanwhile
        self._name = name
        key = host_key(request.world_size) or f"{os.getpid()}/{os.urandom(8).hex()}"
        parts = "\0".join([dataset, self._code or "", str(number), key, *_places_of_code()])
        name = hashlib.blake2b(os.fsencode(parts), digest_size=8).hexdigest()
        self._folder = RuntimeFolder(name)
        _folders.add(self._folder)

    def connect(self, deadline: float, start_s: float | None = None) -> ClientSession:
        """Connect to the daemon; start it first if it does not run.

        Args:
            deadline: of `time.monotonic`, for a daemon that runs.
            start_s: time limit for a daemon that must be started; None is `START_TIMEOUT_S`.

        Raises:
            StokerError: the daemon cannot start; it sent the error.
            ConnectError: it ended without an error message, or does not answer.
            ResourceError: its folder cannot be written, because the disk is full, or this process
                has too many open files.
        """
        check_descriptors(CONNECTION_DESCRIPTORS, "a private daemon")
        try:
            return self._connect(deadline, start_s)
        except OSError as error:
            if error.errno not in _FULL:
                raise refusal_kind(error)(
                    f"the private daemon in {self._folder.path} cannot be started:"
                    f" {error.filename or 'a call of the system'}: {error.strerror}"
                ) from error
            raise ResourceError(
                f"the folder of the private daemon, {self._folder.path}, cannot be written:"
                f" {error.strerror}; make room there, or set XDG_RUNTIME_DIR to a folder elsewhere"
            ) from error

    def _connect(self, deadline: float, start_s: float | None) -> ClientSession:
        limit_s = START_TIMEOUT_S if start_s is None else start_s
        begun = time.monotonic()
        with self._folder.locked(max(deadline, begun + limit_s)):
            now = time.monotonic()
            deadline += now - begun  # the wait for the lock takes no time from what follows
            session = self._reuse(deadline) or self._begin(max(deadline, now + limit_s))
            try:
                self._folder.join()
            except BaseException:
                session.close()
                raise
        session.hint = self._log_tail
        return session

    def close(self) -> None:
        """Leave; the last client waits until the daemon has ended and removes its folder."""
        deadline = time.monotonic() + GRACE_S
        with self._folder.left(deadline) as last:
            current = self._folder.current() if last else None
            children = _children.pop(self._folder.path, []) if last else []
            for child in children[:-1]:  # replaced, because it did not answer
                child.kill()
            for child in children:
                end(child, deadline)
            if current is not None and current[1] not in [child.pid for child in children]:
                while is_running(current[1]) and time.monotonic() < deadline:
                    time.sleep(0.005)
        _reap()

    def _reuse(self, deadline: float) -> ClientSession | None:
        current = self._folder.current()
        if current is None or not is_running(current[1]):
            return None
        try:
            return _session(current[0], deadline, self._name)
        except ConnectError:  # it is shutting down; a new daemon's sockets get other names
            return None

    def _begin(self, deadline: float) -> ClientSession:
        name = f"{os.urandom(4).hex()}.sock"
        address = "ipc://" + os.path.join(self._folder.path, name)
        _reap()
        child = self._start(address, deadline)
        _children.setdefault(self._folder.path, []).append(child)
        try:
            self._folder.set_current(address, child.pid)
        except OSError:
            _children[self._folder.path].remove(child)
            end(child, time.monotonic())
            raise
        return _session(address, deadline, self._name)

    def _start(self, address: str, deadline: float) -> "subprocess.Popen[bytes]":
        reader, writer = os.pipe()
        begun = time.monotonic()
        try:
            child = self._execute(address, writer)
            os.close(writer)
            writer = -1
            try:
                started = time.monotonic()
                self._meanwhile()
                took_s = time.monotonic() - started
                self._wait_ready(reader, child, begun + took_s, deadline + took_s)
            except BaseException:
                end(child, time.monotonic())
                raise
            return child
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)

    def _execute(self, address: str, ready: int) -> "subprocess.Popen[bytes]":
        environment = without_working_folder(os.environ)
        environment.pop("NOTIFY_SOCKET", None)  # the daemon must not speak for the script's service
        with open(self._log_path, "ab") as log:
            try:
                return subprocess.Popen(
                    self._command(address, ready),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(ready,),
                    env=environment,
                    cwd=None if working_folder() else "/",
                    start_new_session=True,
                )
            except OSError as error:
                if error.errno not in NO_PROCESS:
                    raise
                raise ResourceError(
                    f"the private daemon cannot be started: {error.strerror}; {MORE_PROCESSES}"
                ) from error

    def _command(self, address: str, ready: int) -> list[str]:
        command = [sys.executable, "-P", "-m", "stoker.server", "serve", "--address", address]
        command += ["--dataset", f"{DATASET}={self._dataset}"]
        if self._code is not None:
            command += ["--pipeline", f"{PIPELINE}={self._code}"]
        # It runs for this user only, so it may import all that this user can.
        command += ["--op-module", "*"]
        if self._workers is not None:
            command += ["--workers", str(self._workers)]
        for folder in folders_of_modules():
            command += ["--python-path", folder]
        return [*command, "--exit-with-last-client", "--ready-fd", str(ready)]

    def _wait_ready(
        self, reader: int, child: "subprocess.Popen[bytes]", begun: float, deadline: float
    ) -> None:
        line = read_line(reader, deadline)
        if line is None:
            waited_s = time.monotonic() - begun
            raise ConnectError(
                f"the private daemon was not ready in {round(waited_s, 1):g} s" + self._log_tail()
            )
        try:
            answer = json.loads(line)
            error = answer.get("error")
        except (ValueError, AttributeError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_S)
            raise ConnectError(
                f"the private daemon ended with exit code {child.poll()} before it was ready; it "
                "needs Stoker's extra `server` (pip install 'stoker[server]')" + self._log_tail()
            ) from None
        if error is not None:
            code, message, details = error
            # The message names a flag of the command line; the caller gave an argument.
            if code == ConfigError.code and "pipeline" in details:
                raise BuildError(f"pipeline={self._code!r}: {details['reason']}")
            if code == ConfigError.code and "dataset" in details:
                raise DatasetError(f"dataset {self._dataset}: {details['reason']}")
            raise from_record(code, message, details)

    @property
    def _log_path(self) -> str:
        return os.path.join(self._folder.path, "daemon.log")

    def _log_tail(self) -> str:
        try:
            with open(self._log_path, "rb") as log:
                log.seek(max(os.fstat(log.fileno()).st_size - TAIL_BYTES, 0))
                text = log.read().decode(errors="replace").strip()
        except OSError:
            return ""
        return f"\nthe end of its log:\n{text}" if text else ""


def _session(address: str, deadline: float, name: str) -> ClientSession:
    limit_s = max(deadline - time.monotonic(), 1.0)
    return connect_with_retries(lambda left_s: ClientSession(address, left_s, name), limit_s)


def _private_request(request: Open) -> tuple[Open, str | None]:
    """Return the request with the private daemon's names, and `module:attribute` if given."""
    stream = request.stream
    check_combination(Asked(stream, request.delivery, has_path=True))
    (source,) = stream.sources
    code = source.pipeline or None
    if code is not None:
        _check_importable(code)
    replace = msgspec.structs.replace
    source = replace(source, dataset=DATASET, pipeline=PIPELINE if code else "")
    return replace(request, stream=replace(stream, sources=(source,))), code


def _check_importable(pipeline: str) -> None:
    """Check the name of a pipeline that the private daemon imports."""
    module, colon, attribute = pipeline.partition(":")
    if not (module and colon and attribute):
        raise UsageError(
            f"pipeline={pipeline!r}: expected 'module:attribute' or a pipeline object, "
            "because the dataset is given by its path"
        )
    if module == "__main__":
        raise UsageError(
            f"pipeline={pipeline!r}: the daemon cannot import your script; move the "
            "pipeline into a module, or pass the pipeline object"
        )


def read_line(reader: int, deadline: float) -> bytes | None:
    """Read up to the end of a line or of the data; None if the deadline passes first."""
    data = b""
    while not data.endswith(b"\n") and len(data) < 2**20:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not await_readable(reader, left_s):
            return None
        part = os.read(reader, 65536)
        if not part:
            break
        data += part
    return data


def daemon_pids() -> list[int]:
    """Return the process ids of the private daemons that this process has started and not ended."""
    return [child.pid for children in _children.values() for child in children]


def end(child: "subprocess.Popen[bytes]", deadline: float) -> None:
    """Wait for a child to end; terminate it at the deadline, and kill it if that fails."""
    for stop in (child.terminate, child.kill):
        try:
            child.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            stop()
            deadline = time.monotonic() + GRACE_S
        else:
            return
    child.wait()


def folders_of_modules() -> list[str]:
    """Return the folders of users that this process imports from; the daemon searches them last.

    Folders inside of an installed package, which some packages add for modules that they bring
    along, are not among them.

    Warns of modules that this process has imported from there and that an installed one shadows.
    """
    first, found = _searched()
    for folder in found:
        line = warning(folder, first, [name for name in modules_of(folder) if name in sys.modules])
        if line:
            warnings.warn(line, stacklevel=2)
    return found


def _searched() -> tuple[list[str], list[str]]:
    """Return the folders of `sys.path` that the daemon searches first, and those of users."""
    installed = {os.path.realpath(folder) for folder in sysconfig.get_paths().values()}
    first = [folder for folder in sys.path if os.path.realpath(folder) in installed]
    first = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *first]
    here = working_folder()
    places = [folder for folder in sys.path if here is not None or os.path.isabs(folder)]
    folders = dict.fromkeys(os.path.abspath(folder) for folder in places if folder not in first)
    inside = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))
    return first, [f for f in folders if os.path.isdir(f) and not f.startswith(inside)]


def _places_of_code() -> list[str]:
    """Return where a daemon of this process imports from, in this order.

    Two checkouts may have a pipeline of the same name, and must not share a daemon.
    """
    inherited = without_working_folder(os.environ).get("PYTHONPATH", "")
    return [sys.prefix, inherited, *_searched()[1]]


def _reap() -> None:
    """Collect the exit codes of daemons that ended after the loader that started them."""
    for path, children in list(_children.items()):
        running = [child for child in children if child.poll() is None]
        if running:
            _children[path] = running
        else:
            del _children[path]


def _forget_in_child() -> None:
    for folder in list(_folders):
        folder.forget()


os.register_at_fork(after_in_child=_forget_in_child)
