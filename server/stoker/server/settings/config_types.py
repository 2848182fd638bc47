"""The tree of the daemon's configuration: sections, keys, types, bounds and fixed defaults.

A key without a default here gets one from the host (`config_loading`). Sizes are bytes, times
seconds.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from stoker.protocol.spec import MAX_WORKERS

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(?:([kmgt]?)(i?)b?)\s*$", re.IGNORECASE)

Positive = Annotated[float, msgspec.Meta(gt=0, le=86400)]
Target = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="MODULE:NAME, such as pipelines:train",
    ),
]
Module = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(\*|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)$",
        description="names of modules, such as own_ops.color, or *",
    ),
]
Endpoint = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^$|^(\S+:|:)?\d{1,5}$", description="HOST:PORT or PORT, such as 127.0.0.1:9100"
    ),
]
MAX_NAME = 256
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]


class DeclaredFlag(NamedTuple):
    """The flag of `stoker serve` that sets a key.

    Attributes:
        help: its help.
        name: its name, if that does not follow from the key: `--memory-limit` sets `memory.limit`,
            and the section `daemon` is left out.
    """

    help: str
    name: str = ""


class ByteSize(int):
    """A number of bytes; in text, a unit may follow: k, M, G, T (1000) or Ki, Mi, Gi, Ti (1024)."""


class SizeOrNone(ByteSize):
    """The same, or 0 for no limit."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all sections."""


class DaemonSection(Section, frozen=True, kw_only=True):
    """`[daemon]`.

    Attributes:
        address: where clients reach the daemon, `ipc://<path>`.
        tcp: where clients on other hosts reach it too, `tcp://HOST:PORT`; empty: not at all.
        insecure: listen there without encryption and without asking who connects.
        key: file with the daemon's secret key, for `tcp`; see `stoker keygen`.
        clients: file with the public keys of clients that may connect; SIGHUP reads it again.
        socket_group: name or number of the Unix group whose members may connect too.
        exit_with_last_client: end once the last client of at least one is gone.
        python_path: folders searched after `sys.path` where pipelines `module:attr` are imported.
        op_modules: modules whose ops and functions a pipeline that a client sends may name;
            submodules count too, and "*" is every module.
        cache_root: folder of compiled kernels.
        integrity: "rows" to compare each row that is read with the check stored at packing, "auto"
            for datasets with images to be decoded, or "off".
        jpeg: decoder of JPEGs with a grid, which changes no pixel: "libjpeg", "stoker" for
            Stoker's own, or "auto" for the own one once it is compiled in the background.
        first_client_s: with `exit_with_last_client`, end if no client came in that time.
        grace_s: seconds that the first SIGTERM waits for chunks under way.
        max_sessions: most sessions at a time.
    """

    address: Annotated[str, DeclaredFlag("Address to listen at, ipc:///path.")]
    tcp: Annotated[
        str, DeclaredFlag("Address for other hosts, tcp://HOST:PORT; PORT + 1 is used too.")
    ] = ""
    insecure: Annotated[
        bool, DeclaredFlag("Let everyone who reaches the TCP port read the datasets.")
    ] = False
    key: Annotated[str, DeclaredFlag("File with this daemon's secret key, for --tcp.")] = ""
    clients: Annotated[
        str, DeclaredFlag("File with the public keys of those who may use --tcp.")
    ] = ""
    socket_group: Annotated[
        str | None, DeclaredFlag("Unix group whose members may connect too.")
    ] = None
    exit_with_last_client: Annotated[bool, DeclaredFlag("End once the last client is gone.")] = (
        False
    )
    python_path: Annotated[
        tuple[str, ...], DeclaredFlag("Folder to import pipelines from; repeatable.")
    ] = ()
    op_modules: Annotated[
        tuple[Module, ...],
        DeclaredFlag("Module whose ops pipelines of clients may name; repeatable.", "--op-module"),
    ] = ()
    cache_root: str
    integrity: Annotated[
        Literal["off", "auto", "rows"],
        DeclaredFlag("Compare rows with their stored check when they are read: auto, rows or off."),
    ] = "auto"
    jpeg: Annotated[
        Literal["auto", "libjpeg", "stoker"],
        DeclaredFlag("Decoder of JPEGs with a grid, with equal pixels: auto, libjpeg or stoker."),
    ] = "auto"
    first_client_s: Positive = 30.0
    grace_s: Positive = 10.0
    max_sessions: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 1024


class WorkersSection(Section, frozen=True, kw_only=True):
    """`[workers]`.

    Attributes:
        count: number of worker processes.
        claim_deadline_s: a worker that does not finish a chunk in this time is killed.
        build_deadline_s: a build of a pipeline that makes no progress for this long is ended.
        start_deadline_s: a worker that is not up in this time is killed.
        debug_memory: run every kernel between guard bytes, slowly; see `compiled.guarded`.
    """

    count: Annotated[
        int,
        msgspec.Meta(ge=1, le=MAX_WORKERS),
        DeclaredFlag("Number of worker processes.", "--workers"),
    ]
    claim_deadline_s: Positive = 60.0
    build_deadline_s: Positive = 300.0
    start_deadline_s: Positive = 60.0
    debug_memory: Annotated[
        bool, DeclaredFlag("Run every kernel between guard bytes, slowly.", "--debug-memory")
    ] = False


class MemorySection(Section, frozen=True, kw_only=True):
    """`[memory]`.

    Attributes:
        limit: most bytes of all slabs, and of values between the steps of pipelines, together.
        session_limit: most bytes of the slots of one session; 0: only `limit` counts.
    """

    limit: Annotated[ByteSize, DeclaredFlag("Most memory for batches, such as 8GiB.")]
    session_limit: Annotated[
        SizeOrNone, DeclaredFlag("Most memory for the batches of one client, such as 2GiB.")
    ] = SizeOrNone(0)


class LogSection(Section, frozen=True, kw_only=True):
    """`[log]`.

    Attributes:
        level: the least level that is logged.
        format: lines for people, or one JSON object a line.
    """

    level: Annotated[
        Literal["debug", "info", "warning", "error"], DeclaredFlag("debug, info, warning or error.")
    ] = "info"
    format: Annotated[Literal["text", "json"], DeclaredFlag("text or json.")] = "text"


class MetricsSection(Section, frozen=True, kw_only=True):
    """`[metrics]`.

    Attributes:
        address: `host:port` of the HTTP endpoint; a port alone means 127.0.0.1; empty: none.
        page: whether the endpoint has a web page: "auto" if only this host reaches the address, or
            with a token; "on" refuses to start if neither is so; "off" never.
        page_token: file with the token that the page asks for; empty: it asks for none.
        stage_times: whether workers time the stages of some rows.
    """

    address: Annotated[
        Endpoint, DeclaredFlag("[HOST:]PORT of a web page, /metrics, /livez and /readyz.")
    ] = ""
    page: Annotated[
        Literal["auto", "on", "off"], DeclaredFlag("Serve the web page: auto, on or off.")
    ] = "auto"
    page_token: Annotated[str, DeclaredFlag("File with the token that the web page asks for.")] = ""
    stage_times: bool = True


class BadSamplesSection(Section, frozen=True, kw_only=True):
    """`[bad_samples]`.

    Attributes:
        folder: folder for lists of bad samples, a file for each dataset; empty: only the log has
            them.
        max_fraction: a stream stops if a larger part of its dataset's samples is bad.
        crash_policy: if a sample crashes or hangs workers twice, "raise" stops its stream, and
            "replace" goes on with a substitute.
    """

    folder: str = ""
    max_fraction: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    crash_policy: Literal["raise", "replace"] = "raise"


class TestingSection(Section, frozen=True, kw_only=True):
    """`[testing]`.

    Attributes:
        fail_points: named failures to provoke, for tests only.
        at_once_bytes: a session opens when this part of its memory is reserved, or its least slots.
        chunk_rows: rows of every chunk, for tests only; 0: by their cost.
    """

    fail_points: str = ""
    at_once_bytes: Annotated[int, msgspec.Meta(ge=0)] = 2**26
    chunk_rows: Annotated[int, msgspec.Meta(ge=0)] = 0


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """All sections.

    Attributes:
        datasets: name -> folder of a packed dataset; or tars or Arrow files that are read in place;
            or the `module:Class` of a live source.
        pipelines: name -> `module:attr`; besides `op_modules`, nothing else is ever imported for
            a client.
    """

    daemon: DaemonSection
    workers: WorkersSection
    memory: MemorySection
    datasets: Annotated[
        dict[Name, str],
        DeclaredFlag(
            "NAME=PATH of a packed dataset, NAME=PATTERN, or NAME=module:Class; repeatable.",
            "--dataset",
        ),
    ] = msgspec.field(default_factory=dict)
    pipelines: Annotated[
        dict[Name, Target],
        DeclaredFlag("NAME=module:attr of a pipeline; repeatable.", "--pipeline"),
    ] = msgspec.field(default_factory=dict)
    log: LogSection = msgspec.field(default_factory=LogSection)
    metrics: MetricsSection = msgspec.field(default_factory=MetricsSection)
    bad_samples: BadSamplesSection = msgspec.field(default_factory=BadSamplesSection)
    testing: TestingSection = msgspec.field(default_factory=TestingSection)


def key_types() -> dict[str, dict[str, Any]]:
    """Return section -> key -> type; the free mappings have the key "*"."""
    found: dict[str, dict[str, Any]] = {}
    for section, kind, keys in _sections():
        types = {key: _parts(hint)[0] for key, hint in keys.items()}
        found[section] = types or {"*": get_args(kind)[1]}
    return found


class SettingFlag(NamedTuple):
    """A flag of `stoker serve`.

    Attributes:
        path: key path of the setting ("workers.count"), or a free mapping ("datasets").
        name: of the flag.
        help: its help.
        kind: type of the setting.
    """

    path: str
    name: str
    help: str
    kind: type

    @property
    def parameter(self) -> str:
        """The name of the command's parameter."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def is_mapping(self) -> bool:
        """True if it is given as NAME=VALUE, once for each name."""
        return self.kind is dict


def setting_flags() -> Iterator[SettingFlag]:
    """Yield the flags that are declared, in the order of the keys."""
    whole = get_type_hints(Config, include_extras=True)
    for section, _, keys in _sections():
        for key, hint in keys.items() or [("", whole[section])]:
            kind, flag = _parts(hint)
            if flag is None:
                continue
            words = key if section == "daemon" else f"{section}_{key}"
            bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
            yield SettingFlag(
                path=f"{section}.{key}".rstrip("."),
                name=flag.name or f"--{words.replace('_', '-')}",
                help=flag.help,
                kind=get_origin(bare) or bare,
            )


def _sections() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield (section, type, key -> its annotation); a free mapping has no keys of its own."""
    for section, hint in get_type_hints(Config, include_extras=True).items():
        kind, _ = _parts(hint)
        is_section = isinstance(kind, type) and issubclass(kind, Section)
        yield section, kind, get_type_hints(kind, include_extras=True) if is_section else {}


def _parts(hint: Any) -> tuple[Any, DeclaredFlag | None]:
    """Return the type of an annotation without its flag, and the flag."""
    if get_origin(hint) is not Annotated:
        return hint, None
    kind, *marks = get_args(hint)
    flag = next((mark for mark in marks if isinstance(mark, DeclaredFlag)), None)
    rest = tuple(mark for mark in marks if not isinstance(mark, DeclaredFlag))
    return Annotated[(kind, *rest)] if rest else kind, flag


def parse_size(text: str) -> int:
    """Read a size with an optional unit: `parse_size("1.5 GiB") == 1610612736`.

    Raises:
        ValueError: it is not a size.
    """
    match = _SIZE.match(text)
    if match is None:
        raise ValueError(f"expected a size such as 6GiB or 500MB, got {text!r}")
    number, unit, binary = match.groups()
    if binary and not unit:
        raise ValueError(f"expected a size such as 6GiB or 500MB, got {text!r}")
    scale = _UNITS[unit.lower()]
    if binary:
        scale = 1024 ** list(_UNITS).index(unit.lower())
    return int(float(number) * scale) if "." in number else int(number) * scale


def decode_hook(kind: type, value: object) -> object:
    """Read a `ByteSize` or `SizeOrNone` for msgspec, from a number or from text.

    Raises:
        TypeError: the tree has a key of a type that this function does not know; a bug.
        ValueError: it is not a size.
    """
    if kind not in (ByteSize, SizeOrNone):
        raise TypeError(f"the configuration cannot read a key of type {kind.__name__}")
    if isinstance(value, str):
        value = parse_size(value)
    if type(value) is kind:
        return value
    if type(value) is not int or value < (0 if kind is SizeOrNone else 1):
        raise ValueError(f"expected a size, got {value!r}")
    return kind(value)
