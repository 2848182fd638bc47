"""Configuration: every source, its order, its origin, and every mistake's message."""

import os
import re
from pathlib import Path

import msgspec
import pytest
from commands import call

from stoker.protocol.errors import ConfigError
from stoker.server.daemon.core_settings import settings
from stoker.server.settings import config_loading as config
from stoker.server.settings.config_loading import load, show
from stoker.server.settings.config_types import Config, Section, decode_hook, key_types, parse_size

DOCS = Path(__file__).parents[3] / "docs" / "configuration.md"


@pytest.fixture
def toml(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "stoker.toml"
        path.write_text(text)
        return path

    return write


def test_the_later_source_wins_key_by_key_and_the_origin_is_kept(toml):
    file = toml(
        "[workers]\ncount = 3\n[memory]\nlimit = '2 GiB'\n[log]\nlevel = 'debug'\n"
        "[datasets]\na = 'one'\nb = '/two'\n"
    )
    loaded = load(
        file,
        flags={"log.level": "error", "datasets": {"c": "/three"}, "daemon.address": None},
        environment={
            "STOKER_WORKERS_COUNT": "5",
            "STOKER_LOG_LEVEL": "warning",
            "STOKER_DATASETS": "b=/deux, d=/four",
            "STOKER_TEST_SESSION": "not ours",
            "XDG_RUNTIME_DIR": "/run/user/7",
            "XDG_CACHE_HOME": "/cache",
        },
    )
    found, origins = loaded
    assert found.workers.count == 5
    assert found.memory.limit == 2 * 2**30
    assert found.log.level == "error"
    assert found.datasets == {
        "a": str(file.parent / "one"),
        "b": "/deux",
        "c": "/three",
        "d": "/four",
    }
    assert found.daemon.address == "ipc:///run/user/7/stoker/stoker.sock"
    assert found.daemon.cache_root == "/cache/stoker/kernels"
    assert origins["workers.count"] == "environment variable STOKER_WORKERS_COUNT"
    assert origins["memory.limit"] == f"{file}:4"
    assert origins["log.level"] == "flag --log-level"
    assert origins["datasets.a"] == f"{file}:8"
    assert origins["datasets.b"] == "environment variable STOKER_DATASETS"
    assert origins["datasets.c"] == "flag --dataset"
    assert origins["daemon.grace_s"] == "default"


def test_the_file_may_be_named_by_the_environment(toml):
    file = toml("[workers]\ncount = 9\n")
    assert load(environment={"STOKER_CONFIG": str(file)}).config.workers.count == 9


def test_the_decoder_of_jpegs_has_a_short_name_in_the_environment(toml):
    file = toml("[daemon]\njpeg = 'libjpeg'\n")
    short, full = {"STOKER_JPEG": "stoker"}, {"STOKER_DAEMON_JPEG": "libjpeg"}
    assert load(environment={}).config.daemon.jpeg == "auto"
    loaded = load(file, environment=short)
    assert loaded.config.daemon.jpeg == "stoker"
    assert 'daemon.jpeg = "stoker"  # environment variable STOKER_JPEG' in show(loaded)
    assert load(environment=short | full).origins["daemon.jpeg"].endswith("STOKER_DAEMON_JPEG")
    assert load(file, {"daemon.jpeg": "libjpeg"}, short).origins["daemon.jpeg"] == "flag --jpeg"


def test_defaults_come_from_the_host():
    found, origins = load(environment={})
    assert 1 <= found.workers.count <= len(os.sched_getaffinity(0))
    assert re.match(r"default \((affinity|cgroup quota) of .* cores\)", origins["workers.count"])
    assert found.memory.limit > 0
    assert origins["memory.limit"].startswith("default (50% of what is free by ")
    assert found.metrics.address == ""


def test_python_path_from_every_source(toml, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = toml("[daemon]\npython_path = ['lib', '/abs']\n")
    assert load(file, environment={}).config.daemon.python_path == (f"{tmp_path}/lib", "/abs")
    variables = {"STOKER_DAEMON_PYTHON_PATH": "x:/y"}
    assert load(environment=variables).config.daemon.python_path == (f"{tmp_path}/x", "/y")
    flags = {"daemon.python_path": ["z"]}
    assert load(flags=flags, environment={}).config.daemon.python_path == (f"{tmp_path}/z",)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("1", 1),
        ("500MB", 500_000_000),
        ("1.5 GiB", 1610612736),
        ("2k", 2000),
        ("2 kib", 2048),
        ("1Ti", 2**40),
    ],
)
def test_sizes(text, size_bytes):
    assert parse_size(text) == size_bytes
    assert load(flags={"memory.limit": text}, environment={}).config.memory.limit == size_bytes


def test_the_limit_of_a_session_may_be_absent_or_0():
    for flags, size_bytes in (({}, 0), ({"memory.session_limit": "0"}, 0)):
        assert load(flags=flags, environment={}).config.memory.session_limit == size_bytes
    given = {"STOKER_MEMORY_SESSION_LIMIT": "2 GiB"}
    found = load(environment=given)
    assert found.config.memory.session_limit == 2 * 2**30
    assert settings(found.config).session_limit_bytes == 2 * 2**30
    shown = "memory.session_limit = 2147483648  # environment variable STOKER_MEMORY_SESSION_LIMIT"
    assert shown in show(found)


def test_tests_choose_how_much_memory_a_session_opens_with():
    found = load(environment={"STOKER_TESTING_AT_ONCE_BYTES": "0"}).config
    assert settings(found).at_once_bytes == 0
    assert settings(load(environment={}).config).at_once_bytes == 2**26


def test_tests_choose_the_rows_of_a_chunk():
    found = load(environment={"STOKER_TESTING_CHUNK_ROWS": "3"}).config
    assert settings(found).chunk_rows == 3
    assert settings(load(environment={}).config).chunk_rows == 0


MISTAKES = [
    (
        "[wrokers]\ncount = 1\n",
        "{file}:1: unknown section [wrokers]; did you mean workers?",
    ),
    ("[workers]\ncuont = 1\n", "{file}:2: unknown key workers.cuont; did you mean count?"),
    (
        "[log]\nzzz = 1\n",
        "{file}:2: unknown key log.zzz; known are format, level",
    ),
    (
        "[workers]\ncount = 'x'\n",
        "{file}:2: workers.count: expected an integer from 1 to 1024, got 'x'",
    ),
    (
        "[workers]\ncount = 0\n",
        "{file}:2: workers.count: expected an integer from 1 to 1024, got 0",
    ),
    (
        "[log]\nlevel = 'loud'\n",
        "{file}:2: log.level: expected one of 'debug', 'info', 'warning', 'error', got 'loud'",
    ),
    (
        "[daemon]\nop_modules = ['a b']\n",
        "{file}:2: daemon.op_modules: expected names of modules, such as own_ops.color, or *, got"
        " ['a b']",
    ),
    (
        "[memory]\nlimit = 'much'\n",
        "{file}:2: memory.limit: expected a size of at least 1 byte, such as 6GiB or 500MB, got"
        " 'much'",
    ),
    (
        "[memory]\nsession_limit = -1\n",
        "{file}:2: memory.session_limit: expected a size such as 6GiB or 500MB, or 0, got -1",
    ),
    (
        "[memory]\nlimit = 0\n",
        "{file}:2: memory.limit: expected a size of at least 1 byte, such as 6GiB or 500MB, got 0",
    ),
    (
        "[memory]\nlimit = 1.5\n",
        "{file}:2: memory.limit: expected a size of at least 1 byte, such as 6GiB or 500MB, got"
        " 1.5",
    ),
    (
        "[pipelines]\ntrain = 'no colon'\n",
        "{file}:2: pipelines.train: expected MODULE:NAME, such as pipelines:train, got 'no colon'",
    ),
    (
        "[metrics]\naddress = 'nowhere'\n",
        "{file}:2: metrics.address: expected HOST:PORT or PORT, such as 127.0.0.1:9100, got"
        " 'nowhere'",
    ),
    (
        "[datasets]\nd = '~nosuchuser/d'\n",
        "{file}:2: datasets.d: the home folder ~nosuchuser of '~nosuchuser/d' is not known on this"
        " host; write its path",
    ),
    (
        "[daemon]\npython_path = ['~nosuchuser']\n",
        "{file}:2: daemon.python_path: the home folder ~nosuchuser of '~nosuchuser' is not known on"
        " this host; write its path",
    ),
    ("workers = 4\n", "{file}:1: expected a table [workers], got 4"),
    (
        "# limits\n[ daemon ]\n  max_sessions = 1e3\n",
        "{file}:3: daemon.max_sessions: expected an integer from 1 to 65536, got 1000.0",
    ),
    (
        "daemon.grace_s = inf\n",
        "{file}:1: daemon.grace_s: expected a number above 0 and at most 86400, got inf",
    ),
    (
        "[metrics]\nstage_times = {on = true}\n",
        "{file}:2: metrics.stage_times: expected true or false, got a table",
    ),
    (
        "[daemon]\npython_path = [\n  7,\n]\n",
        "{file}:2: daemon.python_path: expected a list of texts, got [7]",
    ),
    (
        "[bad_samples]\nmax_fraction = -0.5\n",
        "{file}:2: bad_samples.max_fraction: expected a number from 0 to 1, got -0.5",
    ),
    (
        "testing = {chunk_rows = -1}\n",
        "{file}:1: testing.chunk_rows: expected an integer of at least 0, got -1",
    ),
    (
        "[datasets]\n'' = '/p'\n",
        "{file}:2: datasets: expected a name of 1 to 256 characters, got no text",
    ),
    (  # which of the lines it is cannot be said by their form
        "[bad_samples]\nfolder = '''\nmax_fraction = 1\n'''\nmax_fraction = true\n",
        "{file}:1: bad_samples.max_fraction: expected a number from 0 to 1, got true",
    ),
    (
        "a = [",
        "configuration file {file}: Invalid value (at end of document)",
    ),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_in_the_file_names_file_key_and_remedy(toml, text, message):
    file = toml(text)
    assert call("config", "--config", file) == (78, "", f"stoker: {message.format(file=file)}\n")


ERRORS = [
    (lambda: decode_hook(complex, 1), TypeError,
     "the configuration cannot read a key of type complex"),
    (lambda: setattr(load(environment={}).config.workers, "count", 7), AttributeError,
     "immutable type: 'WorkersSection'"),
    (lambda: load(Path("/nowhere/s.toml"), environment={}), ConfigError,
     "configuration file /nowhere/s.toml: No such file or directory; name a readable TOML file"),
    (lambda: load(flags={"log.colour": "x"}, environment={}), ConfigError,
     "flags['log.colour']: unknown key log.colour; known are format, level"),
    (lambda: load(flags={"wrokers.count": 1}, environment={}), ConfigError,
     "flags['wrokers.count']: unknown section [wrokers]; did you mean workers?"),
    (lambda: load(flags={"workers": 1}, environment={}), ConfigError,
     "flags['workers']: expected names and values of [workers], got 1"),
    (lambda: load(flags={"datasets": "photos"}, environment={}), ConfigError,
     "flag --dataset: expected names and values of [datasets], got 'photos'"),
    (lambda: load(flags={"workers.count": 100000}, environment={}), ConfigError,
     "flag --workers: workers.count: expected an integer from 1 to 1024, got 100000"),
    (lambda: load(environment={"STOKER_WORKERS_CUONT": "1"}), ConfigError,
     "environment variable STOKER_WORKERS_CUONT: unknown key workers.cuont; did you mean"
     " STOKER_WORKERS_COUNT?"),
    (lambda: load(environment={"STOKER_WORKERS_COUNT": "many"}), ConfigError,
     "environment variable STOKER_WORKERS_COUNT: workers.count: expected an integer from 1 to 1024,"
     " got 'many'"),
    (lambda: load(environment={"STOKER_DATASETS": "photos=/one, photos=/two"}), ConfigError,
     "environment variable STOKER_DATASETS: 'photos' comes twice; give each name once"),
    (lambda: load(environment={"STOKER_PIPELINES": "train"}), ConfigError,
     "environment variable STOKER_PIPELINES: expected NAME=VALUE[,NAME=VALUE...], got 'train'"),
    (lambda: load(environment={"STOKER_JPEG": "stokr"}), ConfigError,
     "environment variable STOKER_JPEG: daemon.jpeg: expected one of 'auto', 'libjpeg', 'stoker',"
     " got 'stokr'; did you mean 'stoker'?"),
    (lambda: load(environment={"STOKER_DAEMON_JPEG": "x"}), ConfigError,
     "environment variable STOKER_DAEMON_JPEG: daemon.jpeg: expected one of 'auto', 'libjpeg',"
     " 'stoker', got 'x'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), ERRORS, ids=[message[:60] for *_, message in ERRORS]
)
def test_a_mistake_elsewhere_names_its_source_too(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()


def test_keys_without_a_flag_may_be_given_by_path_or_by_section():
    flags = {"daemon.grace_s": "2.5", "testing": {"chunk_rows": 3}}
    loaded = load(flags=flags, environment={})
    assert (loaded.config.daemon.grace_s, loaded.config.testing.chunk_rows) == (2.5, 3)
    assert loaded.origins["daemon.grace_s"] == "flags['daemon.grace_s']"


def test_show_prints_every_key_once_with_its_origin(toml):
    loaded = load(toml("[datasets]\nphotos = '/p'\n"), environment={"STOKER_LOG_FORMAT": "json"})
    lines = dict(line.split(" = ", 1) for line in show(loaded).splitlines())
    keys = {
        f"{section}.{key}" for section, kinds in key_types().items() for key in kinds if key != "*"
    }
    assert set(lines) == keys | {"datasets.photos"}
    assert lines["log.format"] == '"json"  # environment variable STOKER_LOG_FORMAT'
    assert lines["datasets.photos"].startswith('"/p"  # ')
    assert lines["daemon.exit_with_last_client"] == "false  # default"


def test_the_documentation_has_exactly_the_keys_and_defaults():
    rows = re.findall(r"^\| `(\w+)\.(\w+)` \| (.*?) \| (.*?) \|", DOCS.read_text(), re.MULTILINE)
    documented = {(section, key): default.strip("`") for section, key, _, default in rows}
    sections = {field.name: field.type for field in msgspec.structs.fields(Config)}
    expected = {
        (section, field.name): field
        for section, kind in sections.items()
        if isinstance(kind, type) and issubclass(kind, Section)
        for field in msgspec.structs.fields(kind)
    }
    assert documented.keys() == expected.keys()
    for place, field in expected.items():
        if field.default is not msgspec.NODEFAULT:
            assert documented[place] == config._toml(field.default), place


def test_datasets_that_are_no_folders(toml, tmp_path):
    """A pattern counts from the file's folder, as a path does; `module:Class` is not a path."""
    text = "[datasets]\ntars = 'shards/{00..99}.tar'\nlive = 'photos.sources:Archive'\n"
    found = load(toml(text), environment={}).config.datasets
    assert found == {"tars": f"{tmp_path}/shards/{{00..99}}.tar", "live": "photos.sources:Archive"}
