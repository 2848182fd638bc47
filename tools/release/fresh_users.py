"""What a user does with the wheel, in an environment that holds nothing else.

The environment has the wheel with the extra `server`, in the pinned versions. In it the guide
docs/getting-started.md is run as readers run it, and mypy checks a script against it.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
GUIDE: Final = ROOT / "docs" / "getting-started.md"
SCRIPT: Final = Path(__file__).with_name("typed_script.py")


def version_of(python: str) -> str | None:
    """Return the version of an interpreter, "3.12"; None if it does not start."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None


def install(python: str, wheel: Path, home: Path, extras: str) -> Path:
    """Make an environment of a wheel and the pinned versions of its needs; return its Python."""
    subprocess.run([python, "-m", "venv", "--without-pip", home], check=True)
    inside = home / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", inside]
    pins = ["-c", ROOT / "constraints.txt"]
    subprocess.run([*command, "install", "-q", *pins, f"{wheel}[{extras}]"], check=True)
    return inside


def run_guide(python: Path) -> None:
    """Run the guide with an environment, in a folder of its own, with kernels that it compiles."""
    with tempfile.TemporaryDirectory() as folder:
        runner = ROOT / "tests" / "docs" / "run_page.py"
        here = ["--here", GUIDE, "ipc:///run/stoker/", f"ipc://{folder}/run/"]
        environment = {"PATH": str(python.parent), "HOME": folder, "XDG_CACHE_HOME": f"{folder}/c"}
        subprocess.run([python, runner, *here], cwd=folder, env=environment, check=True)


def check_types(python: Path) -> None:
    """Check a user's script with `mypy --strict`, which sees the installed wheel alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, SCRIPT.name).write_text(SCRIPT.read_text("utf-8"), "utf-8")
        command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python]
        subprocess.run([*command, SCRIPT.name], cwd=folder, check=True)
