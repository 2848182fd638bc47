"""The modules of a user: a folder of their own on `sys.path`, imported by name."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from user_folders import importing_from

HERE = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def user_folder() -> Iterator[Path]:
    """The user's folder, where a script's is: first on the way of this process.

    A private daemon gets the first one, so no folder of other tests may come before it.
    """
    with importing_from(HERE) as folder:
        yield folder


@pytest.fixture(scope="module")
def custom_ops(user_folder: Path) -> ModuleType:
    """The user's module of ops."""
    return importlib.import_module("custom_ops")


@pytest.fixture
def fresh_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Forget what this process has named itself, as a worker starts; allow the modules given.

    Names given meanwhile are kept in the end: a pipeline names its ops once, when it is traced.
    """
    from stoker.jit import named  # noqa: PLC0415

    before, given = named._known, {}

    def forget(*modules: str) -> None:
        given.update(named._known)
        monkeypatch.setattr(named, "_known", {})
        monkeypatch.setattr(named, "_allowed", set(modules))

    yield forget
    before.update({**given, **named._known})
