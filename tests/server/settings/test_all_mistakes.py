"""`stoker config` shows all mistakes of a configuration at once, each with its place."""

from pathlib import Path

from commands import call


def mistakes(file: Path, **environment: str) -> tuple[int, list[str]]:
    code, printed, errors = call("config", "--config", file, **environment)
    assert printed == ""
    return code, errors.splitlines()


def test_mistakes_of_all_sources_and_kinds(tmp_path: Path) -> None:
    file = tmp_path / "stoker.toml"
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    file.write_text(
        "wrokers = 1\n"
        "memory = 7\n"
        "[daemon]\nmax_sessions = 0\nadress = 'x'\npython_path = ['gone']\n"
        "[log]\nlevel = 'loud'\n"
        "[datasets]\na = 'nowhere'\nb = 'broken'\n"
        "[pipelines]\ntrain = 'no colon'\nval = 'no_module_of_this_name:val'\n"
    )
    variables = {"STOKER_WORKERS_CUONT": "3", "STOKER_DAEMON_ADDRESS": "tcp://host:1"}
    code, lines = mistakes(file, **variables)
    expected = (
        f"stoker: {file}:1: unknown section [wrokers]; did you mean workers?",
        f"stoker: {file}:2: expected a table [memory], got 7",
        "stoker: environment variable STOKER_WORKERS_CUONT: unknown key workers.cuont; did you",
        f"stoker: {file}:4: daemon.max_sessions: expected an integer from 1 to 65536, got 0",
        f"stoker: {file}:5: unknown key daemon.adress; did you mean address?",
        f"stoker: {file}:8: log.level: expected one of 'debug', 'info', 'warning', 'error'",
        f"stoker: {file}:13: pipelines.train: expected MODULE:NAME, such as pipelines:train, got",
        "stoker: address 'tcp://host:1': expected ipc:///path, which every daemon has",
        f"stoker: {file}:6: daemon.python_path: there is no folder {tmp_path}/gone",
        f"stoker: {file}:10: dataset 'a': there is no {tmp_path}/nowhere",
        f"stoker: {file}:11: dataset 'b': ",
        f"stoker: {file}:14: pipeline 'val': there is no module 'no_module_of_this_name'",
    )
    assert len(lines) == len(expected), lines
    for line, begin in zip(lines, expected, strict=True):
        assert line.startswith(begin), line
    assert code == 78


def test_one_mistake_brings_no_other(tmp_path: Path) -> None:
    """A file that cannot be read names no dataset, but that is not what is wrong."""
    code, lines = mistakes(tmp_path / "none.toml")
    assert (code, len(lines)) == (78, 1)
    assert "name a readable TOML file" in lines[0]
    pairs = "a=x,b,a=y,c=z"
    code, lines = mistakes(Path("/dev/null"), STOKER_PIPELINES=pairs)
    assert [line.partition(": ")[2].partition(": ")[2] for line in lines] == [
        "expected NAME=VALUE[,NAME=VALUE...], got 'b'",
        "'a' comes twice; give each name once",
        "pipelines.a: expected MODULE:NAME, such as pipelines:train, got 'x'",
        "pipelines.c: expected MODULE:NAME, such as pipelines:train, got 'z'",
    ]
    assert code == 78


def test_keys_that_do_not_go_together_are_found_too(tmp_path: Path) -> None:
    file = tmp_path / "stoker.toml"
    file.write_text("[daemon]\nkey = 'k'\n[datasets]\na = '/nowhere'\n")
    code, lines = mistakes(file)
    assert [code, *(line[:46] for line in lines)] == [
        78,
        "stoker: daemon.key: expected an address for ot",
        f"stoker: {file}:4: dataset 'a': "[:46],
    ]  # fmt: skip
