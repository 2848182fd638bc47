"""Access to the page: whether there is a page, and whether a request may read it.

Without a token the page is served only at an address that no other host reaches, and only to
requests that name this host. So a page from elsewhere cannot read it in the browser of a user, by
a name that it lets point to 127.0.0.1. Other users of the host can read it, as they can read
`/metrics`. With a token, each request needs it: as the password of HTTP's Basic authentication,
which browsers ask for, with any user name, or as a Bearer token.
"""

import base64
import binascii
import hmac
from typing import Final

from stoker.protocol.errors import ConfigError
from stoker.protocol.remote.keys import read_token_file
from stoker.server.daemon.http_server import Answer, HttpRequest
from stoker.server.daemon.metrics_address import host_and_port, is_loopback
from stoker.server.settings.config_types import MetricsSection

_NO_TOKEN: Final = Answer(
    401,
    b"the page needs the token in the file metrics.page_token, as a password\n",
    fields=('WWW-Authenticate: Basic realm="stoker", charset="UTF-8"',),
)
_OTHER_NAME: Final = Answer(
    403, b"expected the name of this host in the address, such as localhost or 127.0.0.1\n"
)


class PageAccess:
    """Checks requests for the page."""

    def __init__(self, token: bytes = b"") -> None:
        """Take the token; empty: requests need none and must name this host."""
        self._token = token

    def refusal(self, request: HttpRequest) -> Answer | None:
        """Return the answer to a request that may not read the page; None: it may."""
        if self._token:
            given = _given(request.fields.get("authorization", ""))
            return None if hmac.compare_digest(given, self._token) else _NO_TOKEN
        host = request.fields.get("host", "")
        return None if not host or is_loopback(_without_port(host)) else _OTHER_NAME


def page_access(settings: MetricsSection) -> PageAccess | None:
    """Return who may read the page of an endpoint; None: it has no page.

    Raises:
        ConfigError: `address` is invalid, the file of the token cannot be used, or the page is "on"
            at an address that other hosts may reach, without a token.
    """
    host, _ = host_and_port(settings.address)
    if settings.page == "off":
        return None
    if settings.page_token:
        return PageAccess(read_token_file(settings.page_token, "metrics.page_token"))
    if is_loopback(host):
        return PageAccess()
    if settings.page == "on":
        raise ConfigError(
            f'metrics.page = "on": expected metrics.page_token, the file with a token, because'
            f" other hosts may reach metrics.address {settings.address}; name one, or let the"
            " endpoint listen at 127.0.0.1",
            key="metrics.page_token",
        )
    return None


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).strip("[]")


def _given(authorization: str) -> bytes:
    """Return the token that a request shows; empty if it shows none."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip().encode()
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""
