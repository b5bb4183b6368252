"""Where a node listens, who we are there, and what to do when nobody answers."""

from __future__ import annotations

import dataclasses
import pathlib
import socket
import ssl

DEFAULT_ADDRESS = "127.0.0.1:7420"
"""Where a node's `[frames] listen` is unless it is told otherwise."""
DEFAULT_MQTT = "127.0.0.1:1883"
"""Where a node listens for MQTT unless it is told otherwise."""


@dataclasses.dataclass(frozen=True)
class Tls:
    """Files for TLS, PEM: the authority that we trust, and the certificate that says who we are with its key.

    Without a certificate only the node shows who it is, which its MQTT listener may accept and `[frames]` does not.
    """

    ca: pathlib.Path | str
    certificate: pathlib.Path | str | None = None
    key: pathlib.Path | str | None = None

    def context(self) -> ssl.SSLContext:
        """What TLS of Python wants of it. Raises `ValueError` for a file that cannot be used, by its name."""
        try:
            context = ssl.create_default_context(cafile=str(self.ca))
        except OSError as error:
            raise ValueError(
                f"ca {self.ca}: {error.strerror or error}: a PEM file with certificates is needed"
            ) from error
        if self.certificate is not None:
            try:
                context.load_cert_chain(str(self.certificate), None if self.key is None else str(self.key))
            except OSError as error:
                files = f"certificate {self.certificate} and key {self.key}"
                raise ValueError(
                    f"{files}: {error.strerror or error}: PEM files that belong together are needed"
                ) from error
        return context


def split(address: str, default: str) -> tuple[str, int]:
    """Host and port of `host:port`, `[v6]:port` or `host`, whose port is then that of `default`.

    Raises `ValueError`, with an example, for what is no address.
    """
    example = f"write it as {default!r}"
    if "://" in address:
        raise ValueError(f"{address!r} is a URL: an address has a host and a port only, {example}")
    bracketed = address.startswith("[")
    host, colon, port = address.rpartition(":") if not bracketed or "]:" in address else (address, "", "")
    if not colon or (not bracketed and ":" in host):
        # No port, or an address of IPv6 without brackets.
        host, port = address, default.rpartition(":")[2]
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is no address: a port is a number from 1 to 65535, {example}")
    return host, int(port)


def cure(error: OSError, section: str) -> str:
    """What went wrong while connecting, and what to do. `section` is where the node's file says where it listens."""
    if isinstance(error, socket.gaierror):
        return "no machine of this name is known here: check the name, or give an address"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens there: is the node running, and is this the address of {section} in its file?"
    if isinstance(error, TimeoutError):
        return "no answer: check the address, and what filters packets on the way"
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message
        if "Hostname mismatch" in why or "IP address mismatch" in why:
            return f"{why}: use a name or address that its certificate has"
        return f"its certificate is not trusted ({why}): name the authority that issued it, tls=Tls(ca=...)"
    if isinstance(error, ssl.SSLError):
        why = error.reason or str(error)
        return f"no TLS with it ({why}): does {section} speak TLS at this port, and does it know our certificate?"
    return str(error)


def refused_certificate(alert: str) -> str:
    """What to do when the node ended the connection with this alert of TLS: it wants to know who we are."""
    return f"it does not take our certificate, or wants one ({alert}): tls=Tls(ca, certificate, key) as it knows them"
