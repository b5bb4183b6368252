"""The same for asyncio."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _client
from ._address import DEFAULT_ADDRESS, DEFAULT_MQTT, Tls
from ._errors import NodeGone
from ._status import DEFAULT_HTTP
from ._status import status as _status

if TYPE_CHECKING:
    from ._frame import Feasible, Frame, Infeasible, Policy


class Subscription:
    """Records of some topics: `async for record in subscription`. The newest are kept where nobody takes them."""

    def __init__(self, inner: _client.Subscription) -> None:
        """By `Client.subscribe`."""
        self._inner = inner
        self._changed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def tell() -> None:
            # The loop may have ended before the thread that reads.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._changed.set)

        inner._on_change = tell

    async def get(self) -> _client.Record | None:
        """The next record; None when the subscription is closed."""
        while True:
            self._changed.clear()
            # In this order: what comes after the look sets the event again.
            is_open = self._inner.is_open
            if (record := self._inner.get(0)) is not None or not is_open:
                return record
            await self._changed.wait()

    async def __aiter__(self) -> AsyncIterator[_client.Record]:
        """Records until it is closed."""
        while (record := await self.get()) is not None:
            yield record

    @property
    def skipped(self) -> int:
        """Records that were dropped here, because newer ones came before anybody took them."""
        return self._inner.skipped

    async def close(self) -> None:
        """Ends it; what has come can still be taken."""
        self._inner.close()

    async def __aenter__(self) -> Subscription:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends it."""
        await self.close()


class Client:
    """`tidegate.Client` for asyncio: `async with tidegate.aio.Client() as client`."""

    def __init__(
        self,
        address: str = DEFAULT_MQTT,
        *,
        name: str = "",
        user: str | None = None,
        password: str | None = None,
        tls: Tls | ssl.SSLContext | None = None,
        timeout: float = 10.0,
    ) -> None:
        """As for `tidegate.Client`; it connects when it is entered."""
        self._address, self._timeout = address, timeout
        self._options: dict[str, Any] = {
            "name": name,
            "user": user,
            "password": password,
            "tls": tls,
            "timeout": timeout,
        }
        self._inner: _client.Client | None = None

    async def publish(
        self,
        topic: str,
        payload: bytes | str = b"",
        *,
        qos: int = 1,
        retain: bool = False,
        expires_s: int | None = None,
        properties: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Publishes a record and waits until the node has accepted it; many may wait at once.

        Raises `Refused` with the node's reason, or `NodeGone` when it has not answered in `timeout` seconds.
        """
        seconds = self._timeout if timeout is None else timeout
        sent = self._client().send(topic, payload, qos=qos, retain=retain, expires_s=expires_s, properties=properties)
        await self._wait(asyncio.wrap_future(sent), seconds)

    async def subscribe(self, *filters: str, qos: int = 1, keep: int = 1000) -> Subscription:
        """Subscribes to topics by MQTT's filters. Raises `Refused` or `NodeGone`."""
        inner, answer = self._client()._begin(filters, qos, keep)
        subscription = Subscription(inner)
        try:
            await self._wait(asyncio.wrap_future(answer), self._timeout)
        except BaseException:
            self._client()._drop(inner)
            raise
        return subscription

    async def __aenter__(self) -> Client:
        """Connects. Raises `Refused` or `NodeGone`."""
        self._inner = await asyncio.to_thread(_client.Client, self._address, **self._options)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends the connection."""
        await self.close()

    async def close(self) -> None:
        """Ends the connection and its subscriptions."""
        if self._inner is not None:
            await asyncio.to_thread(self._inner.close)

    def _client(self) -> _client.Client:
        if self._inner is None:
            raise ValueError("it is not connected: async with tidegate.aio.Client(...) as client")
        return self._inner

    async def _wait(self, answer: asyncio.Future[None], seconds: float) -> None:
        try:
            await asyncio.wait_for(answer, seconds)
        except asyncio.TimeoutError:
            raise NodeGone(f"{self._address}: no answer in {seconds} s") from None


async def status(url: str = DEFAULT_HTTP, *, timeout: float = 10.0) -> dict[str, Any]:
    """`/status` of a node: everything; each field's name ends in its unit. Raises `NodeGone`."""
    return await asyncio.to_thread(_status, url, timeout=timeout)


async def frames(
    camera: str,
    *,
    latency_ms: int = 100,
    min_accuracy: float = 0.0,
    policy: Policy | None = None,
    address: str = DEFAULT_ADDRESS,
    tls: Tls | None = None,
) -> AsyncIterator[Frame | Infeasible | Feasible]:
    """Frames within bounds, and what is to be said of the bounds, until the stream ends (needs `tidegate[frames]`).

    The node keeps the newest frame for a caller that is slow. `policy` is `Policy.DEGRADE` unless it is told. Raises
    `NodeGone` when the node goes, and `Refused`.
    """
    from ._frames import Bounds, Policy  # isort: skip  (says which packages are missing)
    import grpc

    from . import _frames_pb2 as wire
    from ._channel import aio_channel, method, of_grpc
    from ._frame import news

    request = Bounds(latency_ms, min_accuracy, policy or Policy.DEGRADE).request(camera)
    async with aio_channel(address, tls) as to:
        ask = method(to.unary_stream, "Subscribe", wire.SubscribeRequest, wire.SubscribeReply)
        try:
            async for reply in ask(request):
                if (said := news(reply)) is not None:
                    yield said
        except grpc.RpcError as error:
            raise of_grpc(error, address) from error
