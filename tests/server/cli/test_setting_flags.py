"""The flags of `stoker serve` are those that the settings declare, and a mistake names its flag."""

import importlib

import pytest
import typer
from commands import call

from stoker.server.__main__ import COMMANDS
from stoker.server.settings.config_types import key_types, setting_flags

OWN = {"--config", "--ready-fd", "--help"}
"""Flags that are no settings."""
WITHOUT_FLAG = {
    "daemon.cache_root", "daemon.first_client_s", "daemon.grace_s", "daemon.max_sessions",
    "metrics.stage_times",
    "workers.claim_deadline_s", "workers.build_deadline_s", "workers.start_deadline_s",
    "bad_samples.folder", "bad_samples.max_fraction", "bad_samples.crash_policy",
    "testing.fail_points", "testing.at_once_bytes", "testing.chunk_rows",
}  # fmt: skip
"""Keys that are set in a file or in the environment alone, because few change them."""


def test_each_key_has_a_flag_or_is_listed() -> None:
    keys = {
        section if key == "*" else f"{section}.{key}"
        for section, types in key_types().items()
        for key in types
    }
    flags = {flag.path for flag in setting_flags()}
    assert flags | WITHOUT_FLAG == keys
    assert not flags & WITHOUT_FLAG


def test_the_command_has_the_declared_flags_with_their_help() -> None:
    module, attribute = COMMANDS["serve"]
    single = typer.Typer(add_completion=False)
    single.command()(getattr(importlib.import_module(module), attribute))
    made = {one.opts[0]: one.help for one in typer.main.get_command(single).params}
    declared = {flag.name: flag.help for flag in setting_flags()}
    assert declared.items() <= made.items()
    assert made.keys() - declared.keys() <= OWN


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--workers=0", "flag --workers: workers.count: expected an integer from 1 to 1024, got 0"),
        (
            "--workers=9999",
            "flag --workers: workers.count: expected an integer from 1 to 1024",
        ),
        (
            "--memory-limit=0",
            "flag --memory-limit: memory.limit: expected a size of at least 1 byte, such as 6Gi",
        ),
        (
            "--memory-limit=much",
            "flag --memory-limit: memory.limit: expected a size of at least 1 byte, such as 6Gi",
        ),
        ("--memory-session-limit=-1", "flag --memory-session-limit: memory.session_limit: expe"),
        (
            "--integrity=all",
            "flag --integrity: daemon.integrity: expected one of 'off', 'auto', 'rows', got 'all'",
        ),
        (
            "--jpeg=stocker",
            "flag --jpeg: daemon.jpeg: expected one of 'auto', 'libjpeg', 'stoker', got 'stocker'",
        ),
        ("--log-level=loud", "flag --log-level: log.level: expected one of 'debug', 'info', 'wa"),
        ("--log-format=xml", "flag --log-format: log.format: expected one of 'text', 'json', got"),
        (
            "--metrics-address=here",
            "flag --metrics-address: metrics.address: expected HOST",
        ),
        ("--op-module=a b", "flag --op-module: daemon.op_modules: expected names of modules, s"),
        ("--dataset=d", "--dataset 'd': expected NAME=VALUE"),
        ("--pipeline=p=m", "flag --pipeline: pipelines.p: expected MODULE:NAME, such as pipelin"),
    ],
)
def test_a_wrong_value_names_flag_value_and_bound(flag: str, said: str) -> None:
    code, _, errors = call("serve", "--dataset=photos=/nowhere", flag)
    assert code == (2 if "NAME=VALUE" in said else 78)
    assert errors.startswith(f"stoker: {said}"), errors
