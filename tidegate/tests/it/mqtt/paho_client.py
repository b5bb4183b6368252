"""Publishes with paho. Usage: paho_client.py PORT VERSION QOS COUNT [as-it-is]; the version is 4 or 5.

The numbers 0..COUNT-1 go to the topic t. Breaks of the connection are paho's to mend.
"""

import struct
import sys
import time

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties


class Client(mqtt.Client):
    """paho 1.6 resets its messages at each attempt to connect, and at the second one in a row takes a
    publish whose PUBREC it had for one that it never sent: it publishes it anew, though the broker was
    right to forget its identifier at the PUBREL. No broker can know such a publish."""

    def _messages_reconnect_reset_out(self):
        for message in self._out_messages.values():
            if message.state == mqtt.mqtt_ms_resend_pubrel:
                message.state = mqtt.mqtt_ms_wait_for_pubcomp
        super()._messages_reconnect_reset_out()


def connect(client, *arguments, **options):
    """The first connection is not paho's to mend: a node may be starting."""
    until = time.monotonic() + 60
    while True:
        try:
            return client.connect(*arguments, **options)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def main():
    port, version, qos, count = (int(text) for text in sys.argv[1:5])
    arguments = {"client_id": f"paho-{version}-{qos}", "protocol": version}
    if version == 4:
        arguments["clean_session"] = False
    if hasattr(mqtt, "CallbackAPIVersion"):
        arguments["callback_api_version"] = mqtt.CallbackAPIVersion.VERSION2
    client = (mqtt.Client if sys.argv[5:] == ["as-it-is"] else Client)(**arguments)
    client.reconnect_delay_set(0.1, 0.2)
    client.max_inflight_messages_set(10)
    # What was published while the connection was broken goes out later, and its `is_published` is an error for ever:
    # what is completed is heard instead.
    completed = set()
    client.on_publish = lambda _client, _data, mid, *_rest: completed.add(mid)
    if version == 5:
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 60
        connect(client, "127.0.0.1", port, clean_start=False, properties=properties)
    else:
        connect(client, "127.0.0.1", port)
    client.loop_start()
    sent = {client.publish("t", struct.pack(">I", number), qos=qos).mid for number in range(count)}
    until = time.monotonic() + 60
    while not sent <= completed:
        if time.monotonic() > until:
            sys.exit("not all were completed")
        time.sleep(0.01)
    client.disconnect()
    client.loop_stop()


main()
