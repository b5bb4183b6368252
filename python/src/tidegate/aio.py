"""The same for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc

from . import _frames_pb2 as wire
from ._connection import DEFAULT_ADDRESS, Tls, aio_channel, method
from ._errors import of_grpc
from ._frame import Bounds, Feasible, Frame, Infeasible, Policy, news


async def frames(
    camera: str,
    *,
    latency_ms: int = 100,
    min_accuracy: float = 0.0,
    policy: Policy = Policy.DEGRADE,
    address: str = DEFAULT_ADDRESS,
    tls: Tls | None = None,
) -> AsyncIterator[Frame | Infeasible | Feasible]:
    """Frames within bounds, and what is to be said of the bounds, until the stream ends.

    The node keeps the newest frame for a caller that is slow. Raises `NodeGone` when the node
    goes, and `Refused`.
    """
    request = Bounds(latency_ms, min_accuracy, policy).request(camera)
    async with aio_channel(address, tls) as to:
        ask = method(to.unary_stream, "Subscribe", wire.SubscribeRequest, wire.SubscribeReply)
        try:
            async for reply in ask(request):
                if (said := news(reply)) is not None:
                    yield said
        except grpc.RpcError as error:
            raise of_grpc(error, address) from error
