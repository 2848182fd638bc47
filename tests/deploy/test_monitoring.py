"""Prometheus and Grafana of compose.yaml: every query uses metrics that a daemon exports."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

PROMTOOL = shutil.which("promtool")
PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
KNOWN = set(re.findall(r"`((?:stoker|process)_\w+)`", PAGE.read_text()))
"""The metrics of the page, which tests compare with those of a daemon."""
KNOWN |= {f"{name}_bucket" for name in KNOWN}


@pytest.fixture
def rules(deploy: Path) -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((deploy / "monitoring" / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


@pytest.fixture
def queries(deploy: Path) -> list[str]:
    """The queries of the dashboard, with values for its variables."""
    board = json.loads((deploy / "monitoring" / "dashboards" / "stoker.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {"stoker"}
    return [q.replace("$__rate_interval", "1m").replace("$instance", ".*") for q in found]


def metrics(query: str) -> set[str]:
    """The names of metrics in a query."""
    return set(re.findall(r"\b(?:stoker|process)_\w+", query))


def test_alerts_use_metrics_that_exist(rules: list[dict[str, Any]]) -> None:
    for rule in rules:
        assert metrics(rule["expr"]) <= KNOWN, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "action"}
    assert "up{job=" in rules[0]["expr"]


def test_the_dashboard_uses_metrics_that_exist(queries: list[str]) -> None:
    assert len(queries) > 10
    for query in queries:
        assert metrics(query), query
        assert metrics(query) <= KNOWN, query


def test_prometheus_scrapes_the_daemon_that_grafana_shows(
    deploy: Path, compose: dict[str, Any]
) -> None:
    folder = deploy / "monitoring"
    (job,) = yaml.safe_load((folder / "prometheus.yml").read_text())["scrape_configs"]
    ((target,),) = [config["targets"] for config in job["static_configs"]]
    host, _, port = target.partition(":")
    assert host in compose["services"]
    assert compose["services"][host]["environment"]["STOKER_METRICS_ADDRESS"] == f"0.0.0.0:{port}"
    (source,) = yaml.safe_load((folder / "datasource.yml").read_text())["datasources"]
    assert (source["uid"], source["url"]) == ("stoker", "http://prometheus:9090")
    (provider,) = yaml.safe_load((folder / "provider.yml").read_text())["providers"]
    mounted = [v.split(":")[1] for v in compose["services"]["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounted


@pytest.mark.skipif(PROMTOOL is None, reason="Prometheus is not installed")
def test_prometheus_can_read_all_of_it(deploy: Path, queries: list[str], tmp_path: Path) -> None:
    shown = [{"record": f"shown:{n}", "expr": query} for n, query in enumerate(queries)]
    (tmp_path / "shown.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "shown", "rules": shown}]})
    )
    folder = deploy / "monitoring"
    for command in (
        ["check", "rules", str(tmp_path / "shown.yml")],
        ["check", "config", str(folder / "prometheus.yml")],
    ):
        done = subprocess.run([PROMTOOL, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
