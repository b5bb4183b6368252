"""Ordinary records: published at a node, and subscribed to, over MQTT 5."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import queue
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from ._address import DEFAULT_MQTT, Tls, cure, refused_certificate, split
from ._errors import NodeGone, Refused

_FAILED = 0x80
"""Reason codes from here on say no."""
UNANSWERED_MAX = 10_000
"""Records that `Client.send` lets wait for the node's answer."""
_SECTION = "mqtt of an [[input]]"


def _properties(packet: int) -> Any:  # noqa: ANN401
    return Properties(packet)  # type: ignore[no-untyped-call]


@dataclasses.dataclass(frozen=True)
class Record:
    """A record as it came."""

    topic: str
    payload: bytes
    qos: int
    is_retained: bool
    """It was kept for those who subscribe later."""
    properties: Mapping[str, str]
    """User properties; of one name the last."""


class Subscription:
    """Records of some topics in the order in which they came; the newest are kept where nobody takes them."""

    def __init__(self, client: Client, number: int, filters: tuple[str, ...], qos: int, keep: int) -> None:
        """By `Client.subscribe`."""
        self._client, self._number, self._filters, self._qos = client, number, filters, qos
        self._records: collections.deque[Record] = collections.deque(maxlen=keep)
        self._changed = threading.Condition()
        self._skipped = 0
        self._is_open = True
        self._on_change: Callable[[], None] | None = None

    def get(self, timeout: float | None = None) -> Record | None:
        """The next record: waits for one, at most `timeout` seconds. None when none came, or it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._records or not self._is_open, timeout)
            return self._records.popleft() if self._records else None

    def __iter__(self) -> Iterator[Record]:
        """Records until it is closed."""
        while (record := self.get()) is not None:
            yield record

    @property
    def skipped(self) -> int:
        """Records that were dropped here, because `keep` newer ones came before anybody took them."""
        return self._skipped

    @property
    def is_open(self) -> bool:
        """Whether records may still come."""
        return self._is_open

    def close(self) -> None:
        """Ends it; what has come can still be taken."""
        self._client._forget(self._number, self._filters)
        self._end()

    def __enter__(self) -> Subscription:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.close()

    def _take(self, record: Record) -> None:
        with self._changed:
            self._skipped += len(self._records) == self._records.maxlen
            self._records.append(record)
            self._changed.notify_all()
        self._tell()

    def _end(self) -> None:
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        self._tell()

    def _tell(self) -> None:
        if (on_change := self._on_change) is not None:
            on_change()


class Client:
    """A connection to a node's MQTT listener, which comes back by itself and then subscribes again."""

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
        """Connects to `host:port` (1883 without a port), within `timeout` seconds.

        `name` is the MQTT client identifier; without one the node chooses. `tls` names our certificate, or is a
        context of Python's. Raises `Refused` or `NodeGone`, and `ValueError` for what is no address.
        """
        host, port = split(address, DEFAULT_MQTT)
        self._address, self._timeout = address, timeout
        self._changed = threading.Condition()
        self._waiting: dict[tuple[str, int], Future[None]] = {}
        self._answers: dict[tuple[str, int], Any] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._numbers = 0
        self._greetings: list[Any] = []
        self._alert = ""
        self._is_up = False
        self._mqtt = mqtt.Client(CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5)
        self._mqtt.reconnect_delay_set(1, 2)
        self._mqtt.connect_timeout = timeout
        if user is not None:
            self._mqtt.username_pw_set(user, password)
        if tls is not None:
            self._mqtt.tls_set_context(tls.context() if isinstance(tls, Tls) else tls)
        self._mqtt.on_connect = self._on_connect
        self._mqtt.on_disconnect = self._on_disconnect
        self._mqtt.on_message = self._on_message
        self._mqtt.on_log = self._on_log
        self._mqtt.on_publish = lambda _c, _u, mid, code, _p: self._answer("publish", mid, [code])
        self._mqtt.on_subscribe = lambda _c, _u, mid, codes, _p: self._answer("subscribe", mid, codes)
        try:
            self._mqtt.connect(host, port)
        except OSError as error:
            raise NodeGone(f"{address}: {cure(error, _SECTION)}") from error
        self._greet(tls is not None)

    def _greet(self, has_tls: bool) -> None:
        self._mqtt.loop_start()
        with self._changed:
            self._changed.wait_for(lambda: self._greetings or self._alert, self._timeout)
        if not self._greetings:
            self.close()
            if self._alert:
                raise NodeGone(f"{self._address}: {refused_certificate(self._alert)}")
            other = "" if has_tls else "; if this port speaks TLS: tls=Tls(ca=...)"
            raise NodeGone(
                f"{self._address}: somebody listens there and does not answer MQTT in {self._timeout} s{other}"
            )
        if self._greetings[0].is_failure:
            self.close()
            raise Refused(str(self._greetings[0]))

    def publish(
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
        """Publishes a record and waits until the node has accepted it (qos 0: until it is written).

        After `expires_s` seconds nobody wants it any more. Raises `Refused` with the node's reason, or `NodeGone` when
        it has not answered in `timeout` seconds (default: the client's); it may have been accepted all the same.
        """
        seconds = self._timeout if timeout is None else timeout
        with self._changed:
            # Before it is up again what is subscribed to is not, and would miss this.
            if not self._changed.wait_for(lambda: self._is_up, seconds):
                raise NodeGone(f"{self._address}: no connection in {seconds} s")
        self._await(
            self.send(topic, payload, qos=qos, retain=retain, expires_s=expires_s, properties=properties), seconds
        )

    def send(
        self,
        topic: str,
        payload: bytes | str = b"",
        *,
        qos: int = 1,
        retain: bool = False,
        expires_s: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Future[None]:
        """Publishes a record and does not wait: the answer is done when the node has accepted it, or said no.

        `concurrent.futures.wait` waits for many of them. At most 10,000 may wait for their answer (`queue.Full`); what
        waits when the connection breaks is sent again. Without a connection the answer is `NodeGone`.
        """
        with_it: Any = _properties(PacketTypes.PUBLISH)
        if expires_s is not None:
            with_it.MessageExpiryInterval = expires_s
        if properties:
            with_it.UserProperty = list(properties.items())
        with self._changed:
            if not self._is_up:
                return _failed(NodeGone(f"{self._address}: no connection"))
            if len(self._waiting) >= UNANSWERED_MAX:
                return _failed(
                    queue.Full(f"{UNANSWERED_MAX} records wait for the node's answer: wait for some of them")
                )
        # Without our lock: the answer may come in another thread before this returns.
        sent = self._mqtt.publish(topic, payload, qos, retain, with_it)
        if sent.rc not in (mqtt.MQTT_ERR_SUCCESS, mqtt.MQTT_ERR_NO_CONN):
            return _failed(NodeGone(f"{self._address}: {mqtt.error_string(sent.rc)}"))
        return self._expect("publish", sent.mid)

    def subscribe(self, *filters: str, qos: int = 1, keep: int = 1000) -> Subscription:
        """Subscribes to topics by MQTT's filters (`+`, `#`, `$share/group/filter`), with at most `qos`.

        Of what nobody takes the newest `keep` records are kept. Raises `Refused` or `NodeGone`.
        """
        subscription, answer = self._begin(filters, qos, keep)
        try:
            self._await(answer, self._timeout)
        except Exception:
            self._drop(subscription)
            raise
        return subscription

    def close(self) -> None:
        """Ends the connection and its subscriptions; what was sent and not answered fails with `NodeGone`."""
        self._mqtt.disconnect()
        self._mqtt.loop_stop()
        for subscription in list(self._subscriptions.values()):
            subscription._end()
        with self._changed:
            unanswered, self._waiting = list(self._waiting.values()), {}
        for future in unanswered:
            if future.set_running_or_notify_cancel():
                future.set_exception(NodeGone(f"{self._address}: closed before the node answered"))

    def __enter__(self) -> Client:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the connection."""
        self.close()

    def _begin(self, filters: tuple[str, ...], qos: int, keep: int) -> tuple[Subscription, Future[None]]:
        if not filters:
            raise ValueError("a subscription needs a filter, for instance 'factory/#'")
        self._numbers += 1
        subscription = Subscription(self, self._numbers, filters, qos, keep)
        self._subscriptions[self._numbers] = subscription
        try:
            return subscription, self._expect("subscribe", self._ask(subscription))
        except Exception:
            self._drop(subscription)
            raise

    def _drop(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription._number, None)

    def _ask(self, subscription: Subscription) -> int:
        number: Any = _properties(PacketTypes.SUBSCRIBE)
        number.SubscriptionIdentifier = subscription._number
        options = SubscribeOptions(qos=subscription._qos)
        code, mid = self._mqtt.subscribe([(one, options) for one in subscription._filters], properties=number)
        if code != mqtt.MQTT_ERR_SUCCESS or mid is None:
            raise NodeGone(f"{self._address}: {mqtt.error_string(code)}")
        return mid

    def _forget(self, number: int, filters: tuple[str, ...]) -> None:
        if self._subscriptions.pop(number, None) is not None:
            others = {one for other in self._subscriptions.values() for one in other._filters}
            if unwanted := [one for one in filters if one not in others]:
                self._mqtt.unsubscribe(unwanted)

    def _expect(self, kind: str, mid: int) -> Future[None]:
        """What is done when the answer to `mid` comes; it may have come already."""
        future: Future[None] = Future()
        with self._changed:
            code = self._answers.pop((kind, mid), None)
            if code is None:
                self._waiting[kind, mid] = future
        if code is not None:
            _settle(future, code)
        return future

    def _answer(self, kind: str, mid: int, codes: list[Any]) -> None:
        code = next((code for code in codes if code.value >= _FAILED), codes[0])
        with self._changed:
            future = self._waiting.pop((kind, mid), None)
            if future is None:
                self._answers[kind, mid] = code
        if future is not None:
            _settle(future, code)

    def _await(self, answer: Future[None], seconds: float) -> None:
        try:
            answer.result(seconds)
        except FutureTimeoutError:
            raise NodeGone(f"{self._address}: no answer in {seconds} s") from None

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:  # noqa: ANN401
        if not code.is_failure:
            for subscription in list(self._subscriptions.values()):
                # The connection is gone again: then this is called again.
                with contextlib.suppress(NodeGone):
                    self._expect("subscribe", self._ask(subscription))
        with self._changed:
            self._greetings = [code]
            self._is_up = not code.is_failure
            self._changed.notify_all()

    def _on_log(self, _client: Any, _data: Any, level: int, text: str) -> None:  # noqa: ANN401
        # In TLS 1.3 a node refuses a certificate after our side of the handshake, and paho only logs it.
        if level == mqtt.MQTT_LOG_ERR and (alert := re.search(r"ALERT_(\w+)", text)):
            with self._changed:
                self._alert = alert[1].lower().replace("_", " ")
                self._changed.notify_all()

    def _on_disconnect(self, *_: object) -> None:
        with self._changed:
            self._is_up = False
            # A subscription is asked for again with a new number; a publish goes again with its own.
            asked = [key for key in self._waiting if key[0] == "subscribe"]
            void = [self._waiting.pop(key) for key in asked]
        for future in void:
            if future.set_running_or_notify_cancel():
                future.set_exception(NodeGone(f"{self._address}: the connection broke"))

    def _on_message(self, _client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:  # noqa: ANN401
        said = message.properties
        pairs = getattr(said, "UserProperty", []) if said else []
        record = Record(message.topic, bytes(message.payload), message.qos, message.retain, dict(pairs))
        for number in getattr(said, "SubscriptionIdentifier", []) if said else []:
            if (subscription := self._subscriptions.get(number)) is not None:
                subscription._take(record)


def _failed(error: Exception) -> Future[None]:
    future: Future[None] = Future()
    future.set_exception(error)
    return future


def _settle(future: Future[None], code: Any) -> None:  # noqa: ANN401
    # Who waited may have given up.
    if future.set_running_or_notify_cancel():
        if code.value >= _FAILED:
            future.set_exception(Refused(str(code)))
        else:
            future.set_result(None)
