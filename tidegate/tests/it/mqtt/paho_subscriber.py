"""Subscribes with paho. Usage: paho_subscriber.py PORT VERSION QOS; the version is 4 or 5.

Prints the payload of each message on the topic t.
"""

import sys

import paho.mqtt.client as mqtt


def main():
    port, version, qos = (int(text) for text in sys.argv[1:4])
    arguments = {"client_id": "paho-subscriber", "protocol": version}
    if hasattr(mqtt, "CallbackAPIVersion"):
        arguments["callback_api_version"] = mqtt.CallbackAPIVersion.VERSION2
    client = mqtt.Client(**arguments)
    client.on_connect = lambda client, *rest: client.subscribe("t", qos)
    client.on_message = lambda client, data, message: print(message.payload.decode(), flush=True)
    client.connect("127.0.0.1", port)
    client.loop_forever()


main()
