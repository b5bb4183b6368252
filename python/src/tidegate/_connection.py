"""The gRPC channel to a node, and the names of its methods."""

from __future__ import annotations

import dataclasses
import pathlib
import ssl
from collections.abc import Callable
from typing import Any

import grpc

DEFAULT_ADDRESS = "127.0.0.1:7420"
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


@dataclasses.dataclass(frozen=True)
class Tls:
    """Files of the certificate that says who we are; PEM."""

    ca: pathlib.Path
    certificate: pathlib.Path
    key: pathlib.Path

    def credentials(self) -> Any:  # noqa: ANN401
        """What gRPC wants of it."""
        return grpc.ssl_channel_credentials(
            pathlib.Path(self.ca).read_bytes(),
            pathlib.Path(self.key).read_bytes(),
            pathlib.Path(self.certificate).read_bytes(),
        )

    def context(self) -> ssl.SSLContext:
        """What TLS of Python wants of it."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(str(self.certificate), str(self.key))
        return context


def channel(address: str, tls: Tls | None) -> Any:  # noqa: ANN401
    """A channel to `host:port`; without TLS only to loopback."""
    if tls is None:
        return grpc.insecure_channel(address, options=_OPTIONS)
    return grpc.secure_channel(address, tls.credentials(), options=_OPTIONS)


def aio_channel(address: str, tls: Tls | None) -> Any:  # noqa: ANN401
    """The same for asyncio."""
    if tls is None:
        return grpc.aio.insecure_channel(address, options=_OPTIONS)
    return grpc.aio.secure_channel(address, tls.credentials(), options=_OPTIONS)


def method(kind: Callable[..., Any], name: str, request: Any, reply: Any) -> Any:  # noqa: ANN401
    """One method of the service: `kind` is one of the channel's four, the others are message types."""
    return kind(
        _SERVICE + name,
        request_serializer=request.SerializeToString,
        response_deserializer=reply.FromString,
    )
