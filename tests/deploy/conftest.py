"""The deployment files, parsed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def deploy() -> Path:
    """The folder of deployment files."""
    return ROOT / "deploy"


@pytest.fixture(scope="session")
def compose(deploy: Path) -> dict[str, Any]:
    """compose.yaml as data, anchors resolved."""
    data = yaml.safe_load((deploy / "compose.yaml").read_text())
    assert set(data["services"]) == {"daemon", "trainer", "prometheus", "grafana"}
    return data
