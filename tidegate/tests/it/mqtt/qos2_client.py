"""A publisher of MQTT 3.1.1 that keeps its state in a file, so that it can be killed at any moment.

Usage: qos2_client.py PORT STATE COUNT. Publishes 0..COUNT-1 to the topic t with QoS 2, eight at a time,
and ends when all are completed. Started again with the same file it goes on where it was.
"""

import json
import os
import socket
import struct
import sys

WINDOW = 8


def load(path):
    if not os.path.exists(path):
        return {"next": 0, "open": []}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def save(path, state):
    """The file is always whole: a new one takes the place of the old."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def exactly(link, count):
    data = b""
    while len(data) < count:
        more = link.recv(count - len(data))
        if not more:
            sys.exit("the node closed the connection")
        data += more
    return data


def publish(number, packet_id, dup):
    body = b"\0\x01t" + struct.pack(">HI", packet_id, number)
    return bytes([0x3C if dup else 0x34, len(body)]) + body


def main():
    port, path, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    state = load(path)
    link = socket.create_connection(("127.0.0.1", port), 20)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.sendall(b"\x10\x10\0\x04MQTT\x04\0\0\0\0\x04kill")
    assert exactly(link, 4)[3] == 0
    for number, packet_id, released in state["open"]:
        if released:
            link.sendall(struct.pack(">BBH", 0x62, 2, packet_id))
        else:
            link.sendall(publish(number, packet_id, True))
    while state["next"] < count or state["open"]:
        while state["next"] < count and len(state["open"]) < WINDOW:
            used = {entry[1] for entry in state["open"]}
            packet_id = min(set(range(1, WINDOW + 1)) - used)
            state["open"].append([state["next"], packet_id, False])
            state["next"] += 1
            save(path, state)
            link.sendall(publish(state["next"] - 1, packet_id, False))
        kind, _, packet_id = struct.unpack(">BBH", exactly(link, 4))
        entry = next((entry for entry in state["open"] if entry[1] == packet_id), None)
        if kind == 0x50:
            if entry:
                entry[2] = True
                save(path, state)
            link.sendall(struct.pack(">BBH", 0x62, 2, packet_id))
        elif kind == 0x70 and entry:
            state["open"].remove(entry)
            save(path, state)
    link.sendall(b"\xe0\0")


main()
