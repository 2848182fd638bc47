"""A loader as notebooks show it: what it reads, what bounds its loop, its daemon's page."""

import html
import ipaddress
from typing import Final
from urllib.parse import urlsplit

from stoker.client.loop_verdict import LoopVerdict
from stoker.protocol.pictures import heading, table

_CLOSED: Final = "closed"


def loader_html(title: str, verdict: LoopVerdict | None, page: str, *, is_remote: bool) -> str:
    """Return HTML of a loader.

    Args:
        title: what it is.
        verdict: on its loop; None: it is closed.
        page: address of its daemon's page, as the daemon says; or empty.
        is_remote: whether the daemon is on another host.
    """
    rows = [("state", _CLOSED if verdict is None else f"open; {verdict}")]
    return heading(title) + table(("loader", ""), rows) + _link(page, is_remote=is_remote)


def _link(page: str, *, is_remote: bool) -> str:
    """Return a link to a page; empty if this host reaches no page."""
    try:
        parts = urlsplit(page)
        host = parts.hostname or ""
    except ValueError:
        return ""
    if parts.scheme != "http" or not host or (is_remote and _is_loopback(host)):
        return ""
    address = html.escape(page)
    return f'<p><a href="{address}" rel="noreferrer" target="_blank">{address}</a></p>'


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
