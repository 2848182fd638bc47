"""The paths of the page: four files of this package, and a stream of events with the state.

Nothing that a request says names a file. The browser may load nothing from elsewhere, run no code
in the document itself, and be framed by no other page.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from stoker.server.daemon.http_server import Answer, HttpRequest
from stoker.server.daemon.page.page_access import PageAccess

_FILES: Final = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.svg": ("page.svg", "image/svg+xml"),
}
EVENTS: Final = "/events"
_FIELDS: Final = (
    "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options: nosniff",
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Resource-Policy: same-origin",
    "Cache-Control: no-store",
)


class PageSite:
    """Answers requests for the page."""

    def __init__(
        self, access: PageAccess, history: Callable[[], bytes], event: Callable[[], bytes]
    ) -> None:
        """Read the files.

        Args:
            access: says who may read it.
            history: makes the first event; see `PageState.history`.
            event: makes the next event; see `PageState.event`.
        """
        self._access = access
        self._history, self._event = history, event
        folder = Path(__file__).parent / "assets"
        self._answers = {
            path: Answer(200, (folder / name).read_bytes(), kind, _FIELDS)
            for path, (name, kind) in _FILES.items()
        }

    def answer(self, request: HttpRequest) -> Answer | None:
        """Return the answer to a request; None: its path is not the page's."""
        if request.path != EVENTS and request.path not in self._answers:
            return None
        refusal = self._access.refusal(request)
        if refusal is not None:
            return refusal
        if request.path != EVENTS:
            return self._answers[request.path]
        begin = b"retry: 2000\n\n" + self._history()
        return Answer(200, begin, "text/event-stream", _FIELDS, self._event)
