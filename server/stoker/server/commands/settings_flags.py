"""The flags of the daemon's settings, made from their declarations in `settings.config_types`."""

import inspect
from collections.abc import Mapping
from typing import Any

from stoker.server.commands.derived_flags import Command, flag_parameter, with_flags
from stoker.server.commands.named_values import named
from stoker.server.settings.config_types import SettingFlag, setting_flags

Settings = dict[str, object]
"""Key path ("workers.count") -> value of a flag; None if it was not given."""


def takes_settings(command: Command) -> Command:
    """Give a command the flags of the settings; its parameter `settings` is what they say."""
    flags = {flag.parameter: flag for flag in setting_flags()}

    def collect(given: Mapping[str, Any]) -> Settings:
        values = {flag.path: given[name] for name, flag in flags.items()}
        for flag in flags.values():
            if flag.is_mapping:
                values[flag.path] = named(flag.name, values[flag.path])
        return {path: None if value == [] else value for path, value in values.items()}

    return with_flags(command, "settings", [_parameter(flag) for flag in flags.values()], collect)


def _parameter(flag: SettingFlag) -> inspect.Parameter:
    kinds: dict[type, Any] = {bool: bool, int: int, tuple: list[str], dict: list[str]}
    return flag_parameter(flag.parameter, kinds.get(flag.kind, str), flag.name, help=flag.help)
