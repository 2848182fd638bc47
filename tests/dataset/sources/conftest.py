"""A fixture for the tests of sources: `stoker pack` in their own process."""

import pytest
from commands import call


@pytest.fixture
def pack(tmp_path):
    """pack(name, *flags) -> (exit code, all that it said), of a source in tmp_path."""

    def run(name: str, *flags: object) -> tuple[int, str]:
        code, out, errors = call(
            "pack", tmp_path / name, tmp_path / "packed", "--workers=1", *flags
        )
        assert "Traceback" not in errors
        return code, " ".join((out + errors).split())

    return run
