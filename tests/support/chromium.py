"""A headless Chromium, driven over its DevTools pipe: open a page, evaluate, press keys, look."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

PATIENCE_S = 60.0
EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser")
"""Where it is; None: it is not installed."""
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--remote-debugging-pipe", "--password-store=basic",
)  # fmt: skip


_FOLDERS = "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"


class Chromium:
    """One tab.

    Attributes:
        complaints: errors of the console, exceptions, and what a security policy blocked.
    """

    def __init__(self, sent: int, received: int) -> None:
        """Take the descriptors of the pipe: what is written to it, and read from it."""
        self._sent, self._received = sent, received
        self._bytes, self._number, self._session = b"", 0, ""
        self._loaded = False
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **arguments: object) -> Any:
        """Call a method of the DevTools protocol; return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._sent, json.dumps(message).encode() + b"\0")
        while True:
            got = self._message()
            if got.get("id") == self._number:
                assert "error" not in got, got
                return got["result"]
            self._hear(got)

    def open(self, url: str) -> None:
        """Load a page, with what it refers to."""
        self._loaded = False
        found = self.call("Page.navigate", url=url)
        assert "errorText" not in found, found
        while not self._loaded:
            self._hear(self._message())

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page; waits for a promise."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, condition: str) -> Any:
        """Wait until an expression is true in the page; return its value."""
        script = (
            f"new Promise((done) => {{ const look = () => {{ const found = {condition};"
            " found ? done(found) : setTimeout(look, 20); }; look(); })"
        )
        return self.evaluate(script)

    def press(self, key: str, code: int) -> None:
        """Press and release a key, such as ("Tab", 9)."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind, with_text in (("keyDown", text), ("keyUp", {})):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=code, **with_text,
            )  # fmt: skip

    def look(self, width: int, *, dark: bool = False) -> None:
        """Set the width of the window, and the scheme of colors."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def picture(self) -> bytes:
        """Return the whole page as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def close(self) -> None:
        """End it with all of its processes."""
        self._session = ""
        with contextlib.suppress(BrokenPipeError, EOFError):
            self.call("Browser.close")

    def _message(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_S
        while b"\0" not in self._bytes:
            left_s = max(until - time.monotonic(), 0)
            assert select.select([self._received], [], [], left_s)[0], "Chromium does not answer"
            part = os.read(self._received, 2**20)
            if not part:
                raise EOFError("Chromium has ended")
            self._bytes += part
        data, _, self._bytes = self._bytes.partition(b"\0")
        return dict(json.loads(data))

    def _hear(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        self._loaded |= event.get("method") == "Page.loadEventFired"
        if event.get("method") == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.complaints.append(told["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))


@contextlib.contextmanager
def chromium() -> Iterator[Chromium]:
    """Run a Chromium of its own, with a folder of its own."""
    assert EXECUTABLE is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        # It takes commands at descriptor 3 and answers at 4.
        script = 'exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null'
        command = ["/bin/sh", "-c", script, EXECUTABLE, *_FLAGS, f"--user-data-dir={folder}"]
        with subprocess.Popen(
            command, env={**os.environ, **dict.fromkeys(_FOLDERS, folder)}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                browser = Chromium(process.stdin.fileno(), process.stdout.fileno())
                yield browser
                browser.close()
                process.wait(PATIENCE_S)
            finally:
                process.kill()
