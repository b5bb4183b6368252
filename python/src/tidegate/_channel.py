"""The gRPC channel to a node, the names of its methods, and its errors in words."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import grpc

from ._address import DEFAULT_ADDRESS, Tls, split
from ._errors import NodeGone, Refused

FRAME_MAX = (32 << 20) + (64 << 10)
"""Largest message: a frame and what stands beside it, bytes."""

_SERVICE = "/tidegate.frames.v1.Frames/"
_OPTIONS = [
    ("grpc.max_receive_message_length", FRAME_MAX),
    ("grpc.max_send_message_length", FRAME_MAX),
    # A picture in one piece of HTTP/2, not in 64: each is encrypted, written and read on its own.
    ("grpc.http2.max_frame_size", 1 << 20),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A channel of its own for each: what one does must not hold up another.
    ("grpc.use_local_subchannel_pool", 1),
]
_CURES = {
    "Name resolution failure": "no machine of this name is known here: check the name, or give an address",
    "DNS resolution failed": "no machine of this name is known here: check the name, or give an address",
    "Connection refused": "nothing listens there: is the node running, and is this the address of its [frames]?",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted: name the authority that issued it, tls=Tls(ca=...)",
    "Hostname Verification Check failed": "use a name or address that its certificate has",
    "Peer name": "use a name or address that its certificate has",
    "Ssl handshake failed": "no TLS with it: does [frames] speak TLS at this port, and does it know our certificate?",
    "Socket closed": "it closed the connection: beyond loopback [frames] wants TLS, tls=Tls(ca, certificate, key)",
}


def _credentials(tls: Tls) -> Any:  # noqa: ANN401
    if tls.certificate is None or tls.key is None:
        raise ValueError("[frames] wants to know who we are: tls=Tls(ca, certificate, key)")
    # Says which file cannot be used; gRPC would only fail to connect.
    tls.context()
    files = (tls.ca, tls.key, tls.certificate)
    return grpc.ssl_channel_credentials(*(pathlib.Path(file).read_bytes() for file in files))


def _target(address: str) -> str:
    host, port = split(address, DEFAULT_ADDRESS)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def channel(address: str, tls: Tls | None) -> Any:  # noqa: ANN401
    """A channel to `host:port`; without TLS only to loopback."""
    if tls is None:
        return grpc.insecure_channel(_target(address), options=_OPTIONS)
    return grpc.secure_channel(_target(address), _credentials(tls), options=_OPTIONS)


def aio_channel(address: str, tls: Tls | None) -> Any:  # noqa: ANN401
    """The same for asyncio."""
    if tls is None:
        return grpc.aio.insecure_channel(_target(address), options=_OPTIONS)
    return grpc.aio.secure_channel(_target(address), _credentials(tls), options=_OPTIONS)


def method(kind: Callable[..., Any], name: str, request: Any, reply: Any) -> Any:  # noqa: ANN401
    """One method of the service: `kind` is one of the channel's four, the others are message types."""
    return kind(
        _SERVICE + name,
        request_serializer=request.SerializeToString,
        response_deserializer=reply.FromString,
    )


def of_grpc(error: grpc.RpcError, address: str) -> Refused | NodeGone:
    """What a call of gRPC failed with: the node's refusal, or its absence, and what to do."""
    said = error.details() or error.code().name
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED):
        cures = [cure for words, cure in _CURES.items() if words in said]
        return NodeGone(f"{address}: {cures[0]} ({said})" if cures else f"{address}: {said}")
    return Refused(said)
