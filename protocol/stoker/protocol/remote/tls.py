"""Mutual TLS 1.3 for carriers: certificates of one process, pinned by the other side.

Each daemon and each client makes a certificate of its own when it starts, signed by itself. The two
exchange certificates over the control connection, which CURVE protects, and each trusts only the
one that it received. So there are no authorities, names or dates, and nothing to configure. It
uses no session tickets: each carrier makes a full handshake. A private key never leaves its
process: OpenSSL reads it from an unnamed memory file.

The cryptography is OpenSSL's, through the standard library's `ssl`; the package `cryptography`
makes the certificates.
"""

import datetime
import os
import ssl
from collections.abc import Iterable
from typing import Final, NamedTuple

from stoker.protocol.errors import ProtocolError, SetupError

MAX_CERTIFICATE_BYTES: Final = 2048
_BEGIN: Final = datetime.datetime(2020, 1, 1)
_END: Final = datetime.datetime(9999, 12, 31, 23, 59, 59)


class Identity(NamedTuple):
    """A certificate (DER) and its chain file for OpenSSL: private key and certificate (PEM)."""

    certificate: bytes
    pem: bytes


def make_identity(name: str) -> Identity:
    """Make a key (P-256) and a certificate that it signs.

    Args:
        name: what the certificate is for; at most 16 characters.

    Raises:
        SetupError: the package `cryptography` is not installed.
    """
    try:
        from cryptography import x509  # noqa: PLC0415 - an extra; only keys need it
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    except ImportError:
        raise SetupError(
            "keys need the package `cryptography`, for the certificates of TLS; run:"
            " pip install 'stoker[keys]'"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # OpenSSL looks trusted certificates up by name, so names must be unique.
    unique = f"{name} {serial:x}"
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, unique)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    encoding = serialization.Encoding
    return Identity(made.public_bytes(encoding.DER), pem + made.public_bytes(encoding.PEM))


def daemon_context(identity: Identity, clients: Iterable[bytes]) -> ssl.SSLContext:
    """Return the context of a daemon that accepts the clients with these certificates (DER)."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity, clients)
    context.num_tickets = 0
    return context


def client_context(identity: Identity, daemon: bytes) -> ssl.SSLContext:
    """Return the context of a client that accepts the daemon with this certificate (DER)."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, identity, [daemon])


def peer_certificate(sock: ssl.SSLSocket) -> bytes:
    """Return the certificate (DER) of the other side, after the handshake."""
    return sock.getpeercert(binary_form=True) or b""


def _context(kind: int, identity: Identity, trusted: Iterable[bytes]) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is pinned
    context.verify_mode = ssl.CERT_REQUIRED
    for certificate in trusted:
        context.load_verify_locations(cadata=certificate)
    descriptor = os.memfd_create("stoker-identity", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, identity.pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context


def check_certificate(certificate: bytes) -> None:
    """Check that OpenSSL can read a certificate (DER).

    Raises:
        ProtocolError: it cannot.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificate)
    except (ssl.SSLError, ValueError) as error:
        raise ProtocolError(f"expected a certificate (X.509, DER): {error}") from None
