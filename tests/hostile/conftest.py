"""The number of attacks: few by default, many with STOKER_TEST_HOSTILE=10000."""

import os

import pytest


@pytest.fixture(scope="session")
def rounds():
    """rounds(few) -> how often to attack: `few`, or what STOKER_TEST_HOSTILE says."""
    wanted = int(os.environ.get("STOKER_TEST_HOSTILE") or 0)
    return lambda few: wanted or few
