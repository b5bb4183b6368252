"""What goes wrong, in words."""

from __future__ import annotations

import grpc


class Refused(Exception):
    """A node said no, and why."""


class FrameRefused(Refused):
    """The node did not take a frame, and says why."""


class NodeGone(ConnectionError):
    """The node cannot be reached, or the connection to it broke."""


def of_grpc(error: grpc.RpcError, address: str) -> Refused | NodeGone:
    """What a call of gRPC failed with: the node's refusal, or its absence."""
    said = error.details() or error.code().name
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED):
        return NodeGone(f"{address}: {said}")
    return Refused(said)
