"""The command line: quick, lazy, one clear line for each mistake, never a traceback."""

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import typer.main
from commands import call
from PIL import Image

import stoker.client
from stoker.server import __main__

PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}


def test_help_lists_the_commands_without_heavy_imports():
    code = (
        "import sys; sys.argv = ['stoker', '--help']\n"
        "from stoker.server.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, sorted({'numba', 'pyarrow', 'torch', 'zmq',"
        " 'llvmlite'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for command in ("serve", "config"):
        assert f" {command} " in ended.stdout
    assert ended.stdout.splitlines()[-1] == "0 []"


COMMANDS_ON_DATA = """
import sys
from stoker.server.__main__ import main

def run(*words):
    sys.argv = ["stoker", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (words, end.code)
    assert ("numba" in sys.modules) == (words[-1] == "compiles"), words

run("pack", "rows.csv", "packed", "--workers=1")
run("verify", "packed", "--workers=1")
run("ls", "packed")
run("split", "packed", "train=0.5", "val=rest")
run("add-column", "packed", "more", "more.csv")
run("unpack", "packed", "files")
run("pack", "--workers=1", "photos.csv", "compiles")
"""


@pytest.mark.slow
def test_commands_on_datasets_import_numba_for_jpegs_with_a_grid_alone(tmp_path):
    """It takes a second of the processor, which the codes and checksums of such JPEGs need."""
    pixels = np.random.default_rng(1).integers(0, 255, (9, 12, 3), np.uint8)
    low = Image.fromarray(pixels)
    for name in ("0.png", "2.png"):
        low.save(tmp_path / name)
    low.resize((160, 120), Image.Resampling.BICUBIC).save(tmp_path / "1.jpg")
    (tmp_path / "rows.csv").write_text("image,label\n0.png,a\n2.png,b\n")
    (tmp_path / "more.csv").write_text("row,more\n0,0.5\n1,0.25\n")
    (tmp_path / "photos.csv").write_text("image,label\n1.jpg,a\n")
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS_ON_DATA], cwd=tmp_path, env={**os.environ, **PLAIN},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_without_the_extra_one_line_says_what_to_install(tmp_path):
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError('no typer', name='typer')")
    ended = subprocess.run(
        [sys.executable, "-m", "stoker.server", "serve"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "stoker: the command line needs more packages; run: pip install 'stoker[server]'\n"
    )


def test_the_version(stoker):
    code, printed, _ = stoker("--version")
    assert code == 0
    assert printed == f"stoker {importlib.metadata.version('stoker')}\n"


def test_the_namespace_runs_as_a_module():
    """`stoker` has no `__init__.py`, but one of its portions has `__main__.py`."""
    command = [sys.executable, "-m", "stoker", "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout == f"stoker {importlib.metadata.version('stoker')}\n"
    assert stoker.client.__version__ == importlib.metadata.version("stoker")
    with pytest.raises(AttributeError, match=r"'stoker.client' has no attribute 'version'"):
        stoker.client.version  # noqa: B018


@pytest.mark.parametrize("command", [(), *((name,) for name in __main__.COMMANDS)])
def test_help_has_a_short_name(command):
    short, long = (call(*command, flag, **PLAIN) for flag in ("-h", "--help"))
    assert short == long
    assert short[0] == 0
    assert "Usage: stoker" in short[1]


@pytest.mark.parametrize("command", __main__.COMMANDS)
def test_help_has_examples_that_the_command_takes(command):
    """Names, types and required parts; what an example names need not be there."""
    words = " ".join(call(command, "--help", **PLAIN)[1].partition("╭")[0].split())
    examples = re.findall(r"`(stoker [^`]+)`", words.partition(" Example")[2])
    assert examples
    group = typer.main.get_command(__main__._application())
    for example in examples:
        program, name, *arguments = shlex.split(example.partition(" | ")[0])
        assert (program, name) == ("stoker", command)
        with group.make_context("stoker", [name]) as root:
            group.get_command(root, name).make_context(name, arguments, parent=root)


def test_a_shell_completes_commands_and_options(tmp_path):
    def completed(*words):
        asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return call(_STOKER_COMPLETE="complete_bash", **asked)[1].split()

    assert completed("stoker", "p") == ["pack", "preview"]
    assert "--batch-size" in completed("stoker", "bench", "--")
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # CI has no shell above it
    code, printed, _ = call("--install-completion", "bash", HOME=str(tmp_path), **named)
    assert (code, "bash completion installed in" in printed) == (0, True)
    assert "_STOKER_COMPLETE=complete_bash" in (
        (tmp_path / ".bash_completions/stoker.sh").read_text()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["sevre"], "Did you mean 'serve'?"),
        (["serve", "--nonsense"], "No such option"),
        (["serve", "--workers", "many"], "Invalid value for '--workers'"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(arguments, message):
    code, _, errors = call(*arguments, **PLAIN)
    assert code == 2
    assert message in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["serve", "--dataset", "photos"],
            "stoker: --dataset 'photos': expected NAME=VALUE\n",
        ),
        (
            ["serve", "--dataset", "photos=/one", "--dataset", "photos=/two"],
            "stoker: --dataset 'photos=/two': 'photos' is '/one' already; give each name once\n",
        ),
        (
            ["serve", "--pipeline", "train=a:b", "--pipeline", "train=a:b"],
            "stoker: --pipeline 'train=a:b': 'train' is 'a:b' already; give each name once\n",
        ),
        (
            ["pack", "/nowhere", "/out", "--field", "a=mask", "--field", "a=image"],
            "stoker: --field 'a=image': 'a' is 'mask' already; give each name once\n",
        ),
        (
            ["ls", "/tmp/\udcff"],
            "stoker: argument '/tmp/\\udcff' is not UTF-8: rename the file that it names; if that "
            "is UTF-8 on disk, this process reads names in another encoding: set PYTHONUTF8=1\n",
        ),
        (
            ["serve", "--dataset", "photos=/nowhere/at/all"],
            "stoker: flag --dataset: dataset 'photos': there is no /nowhere/at/all; name the"
            " folder that `stoker pack` wrote, or a source that is read in place\n",
        ),
        (
            ["pack", "photos", ""],
            "stoker: pack: expected a path or a name for each argument, got an empty text; is a"
            " variable of the shell not set?\n",
        ),
        (
            ["split", "packed", "--stratify", "label", "", "--seed=1"],
            "stoker: split: expected a path or a name for each argument, got an empty text; is a"
            " variable of the shell not set?\n",
        ),
        (
            ["pack", "--kind", "", "photos", "packed"],  # an option says itself what it expects
            "stoker: --kind: expected one of auto, unpacked, coco, ffcv, webdataset, huggingface,"
            " table, arrays, yolo, parallel, folder, clips, python, got ''\n",
        ),
        (
            ["serve", "--pipeline", "train=no colon"],
            "stoker: flag --pipeline: pipelines.train: expected MODULE:NAME, such as"
            " pipelines:train, got 'no colon'\n",
        ),
        (
            ["serve", "--log-level", "loud"],
            "stoker: flag --log-level: log.level: expected one of 'debug', 'info', 'warning',"
            " 'error', got 'loud'\n",
        ),
        (
            ["config", "--config", "/nowhere.toml"],
            "stoker: configuration file /nowhere.toml: No such file or directory; name a readable"
            " TOML file\n",
        ),
        (
            ["serve", "--dataset", "photos=/"],
            "stoker: flag --dataset: dataset 'photos': / has no manifest.json: it is not a dataset;"
            " make one with `stoker pack / DEST`\n",
        ),
        (
            ["serve", "--dataset", "photos=/tmp/*.tar", "--pipeline", "train=json:dumpz"],
            f"stoker: flag --pipeline: pipeline 'train': {json.__file__} has no 'dumpz'; did you"
            " mean 'dump'?\n",
        ),
        *(
            (
                [command],
                "stoker: nothing to serve: the configuration names no dataset; add --dataset"
                ' NAME=PATH, or NAME = "PATH" under [datasets]\n',
            )
            for command in ("serve", "config")
        ),
    ],
)
def test_a_mistake_is_one_clear_line(arguments, message):
    code, printed, errors = call(*arguments, **PLAIN)
    assert (printed, errors) == ("", message)
    assert code in (2, 78)


def test_the_process_ends_with_the_exit_code_and_the_line(stoker):
    code, _, errors = stoker("serve", "--nonsense")
    assert (code, "No such option" in errors) == (2, True)
    line = (
        "stoker: address 'tcp://0.0.0.0:1': expected ipc:///path, which every daemon has; to listen"
        " for other hosts too, give --tcp tcp://0.0.0.0:1 (daemon.tcp)\n"
    )
    arguments = ("--dataset", "photos=/tmp/*.tar", "--address", "tcp://0.0.0.0:1")
    assert stoker("serve", *arguments) == (2, "", line)


def test_a_file_that_the_system_refuses_is_one_clear_line(monkeypatch, capsys):
    monkeypatch.setattr(__main__, "_application", lambda: lambda **_: os.stat("/nowhere/list"))
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "stoker: /nowhere/list: No such file or directory\n"


@pytest.mark.parametrize("command", ["--help", "config"])
def test_output_on_a_full_disk_is_one_clear_line(command):
    words = [sys.executable, "-m", "stoker", command]
    served = {**os.environ, "STOKER_DATASETS": "photos=/tmp/*.tar"}
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=served
        )
    assert (ended.returncode, ended.stderr) == (
        75,
        "stoker: cannot write the output: No space left on device; free some space, or send it"
        " elsewhere\n",
    )


def test_output_that_nobody_reads_ends_without_a_line():
    unread, written = os.pipe()
    os.close(unread)
    with open(written, "w") as closed:
        words = [sys.executable, "-m", "stoker", "--help"]
        ended = subprocess.run(words, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_ctrl_c_before_a_command_runs_ends_without_a_traceback(monkeypatch, capsys):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "_application", interrupted)
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")


def test_another_error_of_the_system_keeps_its_traceback(monkeypatch):
    def broken(**_: object) -> None:
        raise OSError("no file's fault")

    monkeypatch.setattr(__main__, "_application", lambda: broken)
    with pytest.raises(OSError, match="no file's fault"):
        __main__.main()


def test_config_checks_and_shows(stoker):
    served = {"STOKER_DATASETS": "photos=/tmp/*.tar"}
    assert stoker("config", **served) == (0, "the configuration is valid\n", "")
    code, shown, errors = call("config", "--show", STOKER_WORKERS_COUNT="7", **served)
    assert (code, errors) == (0, "")
    assert "workers.count = 7  # environment variable STOKER_WORKERS_COUNT\n" in shown
    assert 'log.level = "info"  # default\n' in shown


def test_config_as_json():
    served = {"STOKER_DATASETS": "photos=/tmp/*.tar"}
    code, shown, errors = call("config", "--json", STOKER_WORKERS_COUNT="7", **served)
    assert (code, errors) == (0, "")
    told = json.loads(shown)
    assert told["mistakes"] == []
    source = "environment variable STOKER_WORKERS_COUNT"
    assert told["values"]["workers.count"] == {"value": 7, "source": source}
    code, shown, errors = call("config", "--json", "--config=/nowhere.toml", **served)
    assert (code, errors) == (78, "")
    assert [line.partition(":")[0] for line in json.loads(shown)["mistakes"]] == [
        "configuration file /nowhere.toml"
    ]


def test_config_shows_the_values_of_a_configuration_that_serves_nothing():
    code, shown, errors = call("config", "--show")
    assert code == 78
    assert "workers.count = " in shown
    assert errors.startswith("stoker: nothing to serve: ")
