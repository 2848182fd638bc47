"""Open pages of the built site in a headless Chromium, and keep a picture of each.

    python tools/site/look_at_site.py [PAGE ...]

After `make site`. Each page must show its title, load all its pictures, and give the console
nothing to complain about; otherwise the status is 1. The pictures are for people, in
build/site/pictures.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
HTML: Final = ROOT / "build" / "site" / "html"
PICTURES: Final = ROOT / "build" / "site" / "pictures"
PAGES: Final = ("index", "getting-started", "concepts", "gallery", "reference/stoker.client")
WIDTHS: Final = (1280, 400)
"""Of a desk and of a telephone."""
FAULTS: Final = """
[...document.images].filter((one) => !one.naturalWidth).map((one) => `no picture ${one.src}`)
    .concat(document.querySelector('h1') ? [] : ['no title'])
    .concat(document.documentElement.scrollWidth > innerWidth ? ['wider than the window'] : [])
"""
sys.path.insert(0, str(ROOT / "tests" / "support"))


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and logs nothing."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder to this host, and give its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def look(pages: list[str]) -> list[str]:
    """Open each page in both widths; return what is wrong."""
    import chromium  # noqa: PLC0415 - the line above says where it is

    wrong = []
    PICTURES.mkdir(parents=True, exist_ok=True)
    with served(HTML) as address, chromium.chromium() as browser:
        for page in pages:
            for width in WIDTHS:
                browser.look(width)
                browser.open(f"{address}/{page}.html")
                faults = [*browser.evaluate(FAULTS), *browser.complaints]
                wrong += [f"{page}.html, {width} pixels wide: {fault}" for fault in faults]
                browser.complaints.clear()
                picture = PICTURES / f"{page.replace('/', '-')}-{width}.png"
                picture.write_bytes(browser.picture())
    return wrong


if __name__ == "__main__":
    found = look(sys.argv[1:] or list(PAGES))
    print("\n".join([*found, f"pictures are in {PICTURES}"]))
    sys.exit(bool(found))
