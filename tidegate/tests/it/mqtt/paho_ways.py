"""Publishes with paho. Usage: paho_ways.py HOST PORT VERSION QOS COUNT [CA]; the version is 4 or 5.

The numbers 0..COUNT-1 go to the topic t.
"""

import sys

import paho.mqtt.client as mqtt


def main():
    host, (port, version, qos, count) = sys.argv[1], (int(text) for text in sys.argv[2:6])
    arguments = {"client_id": "paho", "protocol": version}
    if hasattr(mqtt, "CallbackAPIVersion"):
        arguments["callback_api_version"] = mqtt.CallbackAPIVersion.VERSION2
    client = mqtt.Client(**arguments)
    if len(sys.argv) > 6:
        client.tls_set(ca_certs=sys.argv[6])
    client.connect(host, port)
    client.loop_start()
    for message in [client.publish("t", str(number), qos=qos) for number in range(count)]:
        message.wait_for_publish(10)
        if not message.is_published():
            sys.exit("not all were completed")
    client.disconnect()
    client.loop_stop()


main()
