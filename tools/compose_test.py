"""Run deploy/compose.yaml with a real container engine, on data of `make demo`.

1. Build both images, print their sizes; the daemon's may add at most 420 MB to the base image.
2. Start daemon and Prometheus, and run the trainer as shipped: it must end with status 0.
3. Read a stream twice in the trainer's container, the second time with SIGKILL to the daemon in the
   midst of it: the container starts again, the client waits for it, and the digests are equal.
4. Ask Prometheus for the query of every panel of the dashboard, and for every metric of an alert:
   each has a series.

Needs Docker, docker compose (v2, or docker-compose 1.27 and newer), and the images that
compose.yaml names. Where no registry can be reached, it makes stand-ins with the names of two of
them, as root, from packages of Debian (debootstrap): python:3.11-slim and prom/prometheus. Grafana
does not run. PIP_EXTRA_INDEX_URL: an index with PyTorch's CPU builds. All that it starts is removed
at the end; images stay.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[1]
DEPLOY: Final = ROOT / "deploy"
PROJECT: Final = "stoker-compose-test"
MOST_ADDED: Final = 420_000_000
"""Bytes that the daemon's image may add to its base image, which is another one on some hosts."""
PYTHON: Final = "python:3.11-slim"
PROMETHEUS: Final = re.search(r"image: (prom/\S+)", (DEPLOY / "compose.yaml").read_text())[1]  # type: ignore[index]
PACKAGES: Final = (
    "python3,python3-pip,python3-venv,python-is-python3,ca-certificates,netbase,tzdata"
)
NOT_IN_SLIM: Final = ("share/doc", "share/man", "share/info", "share/locale")
"""Below /usr: what Debian's slim images leave out."""


def run(*command: str, **options: Any) -> str:
    """Run a command and return its output. Raises SystemExit with the output if it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def succeeds(*command: str) -> bool:
    """Return whether a command exists and ends with status 0."""
    if not shutil.which(command[0]):
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def wait_for(what: str, question: Callable[[], Any], seconds: float = 120) -> Any:
    """Ask again until the answer is true, and return it; SystemExit after the deadline."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := question():
            return answer
        time.sleep(0.2)
    sys.exit(f"{what}: not within {seconds:.0f} s\n{compose('logs', '--tail=40')}")


def compose_command() -> list[str]:
    """Return the command of the version that is installed."""
    if not succeeds("docker", "info"):
        sys.exit(
            "make compose-test needs Docker, but `docker info` failed: start dockerd, or use an "
            "account that may reach it"
        )
    if succeeds("docker", "compose", "version"):
        return ["docker", "compose"]
    if succeeds("docker-compose", "version"):
        return ["docker-compose"]
    sys.exit(
        "make compose-test needs docker compose, but neither `docker compose` nor "
        "`docker-compose` is installed"
    )


def compose(*arguments: str) -> str:
    """Run docker compose with compose.yaml."""
    file = str(DEPLOY / "compose.yaml")
    return run(*compose_command(), "-p", PROJECT, "-f", file, *arguments)


def has_image(name: str) -> bool:
    """Return whether an image is here, or a registry gave it."""
    return succeeds("docker", "image", "inspect", name) or succeeds("docker", "pull", "-q", name)


def make_python() -> None:
    """Import a Debian with Python as the base image, without what slim images leave out."""
    if not shutil.which("debootstrap"):
        sys.exit(f"cannot pull {PYTHON}, nor make it: install debootstrap, and run this as root")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        run(
            "debootstrap",
            "--variant=minbase",
            f"--include={PACKAGES}",
            "bookworm",
            str(root),
            "http://deb.debian.org/debian",
        )
        for name in NOT_IN_SLIM:
            shutil.rmtree(root / "usr" / name)
        shutil.rmtree(root / "var/cache/apt")
        for path in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            path.unlink()
        certificates = (
            "etc/ssl/certs/ca-certificates.crt"  # a registry behind a proxy has this host's
        )
        shutil.copyfile(f"/{certificates}", root / certificates)
        archive = Path(folder, "root.tar")
        run("tar", "-C", str(root), "-cf", str(archive), ".")
        run(
            "docker",
            "import",
            "--change",
            f"ENV PIP_CERT=/{certificates}",
            "--change",
            'CMD ["python3"]',
            str(archive),
            PYTHON,
        )


def make_prometheus() -> None:
    """Build Debian's Prometheus, with the flags of the official image."""
    flags = ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
    text = (
        f"FROM {PYTHON}\nRUN apt-get update\n"
        "RUN apt-get install -y --no-install-recommends prometheus\n"
        "RUN install -d -o nobody /prometheus\nUSER nobody\n"
        f'ENTRYPOINT ["prometheus"]\nCMD {json.dumps(flags)}\n'
    )
    run("docker", "build", "--network", "host", "-t", PROMETHEUS, "-", input=text)


def size_of(image: str) -> int:
    """Return the bytes of an image."""
    return int(run("docker", "image", "inspect", "-f", "{{.Size}}", image))


def build() -> None:
    """Build both images and check the daemon's size."""
    index = os.environ.get("PIP_EXTRA_INDEX_URL", "")
    for target in ("daemon", "trainer"):
        name = f"stoker-{target}:0.1.0"
        arguments = ["--build-arg", f"PIP_EXTRA_INDEX_URL={index}"] if target == "trainer" else []
        file = str(DEPLOY / "Dockerfile")
        run(
            "docker",
            "build",
            "--network",
            "host",
            "-f",
            file,
            "--target",
            target,
            "-t",
            name,
            *arguments,
            str(ROOT),
        )
        added = size_of(name) - size_of(PYTHON)
        print(f"{name}: {size_of(name) / 1e6:.0f} MB, {added / 1e6:.0f} of its own", flush=True)
        if target == "daemon" and added > MOST_ADDED:
            sys.exit(
                f"{name}: expected at most {MOST_ADDED / 1e6:.0f} MB more than {PYTHON}, got"
                f" {added / 1e6:.0f} MB; see deploy/slim.py"
            )


def container(service: str) -> str:
    """Return the id of a service's container."""
    return compose("ps", "-q", service).split()[0]


def inspected(service: str, what: str) -> str:
    """Return a field of a service's container."""
    return run("docker", "inspect", "-f", what, container(service)).strip()


def start() -> None:
    """Start daemon and Prometheus, and wait until the daemon is healthy."""
    compose("--profile", "monitoring", "up", "-d", "daemon", "prometheus")
    begun = time.monotonic()
    wait_for("daemon healthy", lambda: inspected("daemon", "{{.State.Health.Status}}") == "healthy")
    print(f"daemon healthy after {time.monotonic() - begun:.1f} s", flush=True)


def train() -> None:
    """Run the trainer as shipped."""
    print(compose("run", "--rm", "trainer", *trainer_command()), end="", flush=True)


def trainer_command() -> list[str]:
    """Return the command of compose.yaml, for versions that need one."""
    command = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["trainer"][
        "command"
    ]
    return [str(part) for part in command]


def kill_daemon() -> None:
    """Send SIGKILL to the first process of the daemon's container, from outside of it.

    `docker kill` would count as a wish of the user, after which no container starts again.
    """
    before = inspected("daemon", "{{.RestartCount}}")
    pid = inspected("daemon", "{{.State.Pid}}")
    as_its_user = ["--rm", "--pid=host", "--user=10001:10001", "--entrypoint=python"]
    run("docker", "run", *as_its_user, PYTHON, "-c", f"import os; os.kill({pid}, 9)")
    wait_for("daemon started again", lambda: inspected("daemon", "{{.RestartCount}}") != before)
    print("daemon killed, container started again", flush=True)


def digest(kill: bool) -> str:
    """Read the stream in a trainer's container; kill the daemon meanwhile; return the digest."""
    script = f"{ROOT}/tools/compose_digest.py:/opt/stoker/digest.py:ro"
    command = [*compose_command(), "-p", PROJECT, "-f", str(DEPLOY / "compose.yaml")]
    command += ["run", "--rm", "-T", "-v", script, "trainer", "/opt/stoker/digest.py"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        last = ""
        for line in reader.stdout:
            last = line.strip()
            if last == "half":
                if kill:
                    kill_daemon()
                reader.stdin.write("on\n")
                reader.stdin.flush()
    if reader.returncode or not last.startswith("sha256 "):
        sys.exit(
            f"the reader ended with status {reader.returncode}, and its last line is {last!r}\n"
            f"{compose('logs', '--tail=40')}"
        )
    return last


def queries() -> list[str]:
    """Return the queries of the dashboard, and the metrics of the alerts."""
    board = json.loads((DEPLOY / "monitoring/dashboards/stoker.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    found = [q.replace("$__rate_interval", "1m").replace("$instance", ".*") for q in found]
    alerts = (DEPLOY / "monitoring/alerts.yml").read_text()
    return found + sorted(set(re.findall(r"\b(?:stoker|process)_\w+", alerts)))


def has_series(query: str) -> bool:
    """Return whether Prometheus has a series for a query."""
    url = "http://127.0.0.1:9090/api/v1/query?" + urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(url, timeout=10) as answer:
        return bool(json.load(answer)["data"]["result"])


def check_queries() -> None:
    """Wait until every query has a series."""
    asked = queries()
    for query in asked:
        wait_for(f"a series of {query}", lambda query=query: has_series(query), 60)
    print(f"{len(asked)} queries have series", flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-build", action="store_true", help="use the images that are here")
    arguments = parser.parse_args()
    data = Path(os.environ.setdefault("STOKER_DATA", str(ROOT / "demo")))
    if not (data / "packed").is_dir():
        sys.exit(
            f"{data}/packed: no such folder; run `make demo` first, or name its folder in "
            "STOKER_DATA"
        )
    compose_command()
    if not has_image(PYTHON):
        make_python()
    if not has_image(PROMETHEUS):
        make_prometheus()
    if not arguments.no_build:
        build()
    try:
        start()
        train()
        whole = digest(kill=False)
        killed = digest(kill=True)
        print(f"in peace {whole}\nkilled   {killed}", flush=True)
        if whole != killed:
            sys.exit("the digests differ")
        check_queries()
    finally:
        compose("--profile", "monitoring", "down", "-v")


if __name__ == "__main__":
    main()
