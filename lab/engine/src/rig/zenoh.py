"""zenoh's part of the head-of-line benchmark: a router, a publisher, a consumer.

One argument: a document of JSON. A router runs as a session in router mode, which is zenoh's own code and
not Python's. Records carry the lab's stamp, and what is printed is what the lab's own clients print.
"""

import base64
import json
import os
import sys
import threading
import time

import zenoh


def session(mode, listen=None, connect=None):
    """Opens a session that talks to nobody but those it is told."""
    config = zenoh.Config()
    config.insert_json5("mode", json.dumps(mode))
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("scouting/gossip/enabled", "false")
    # Processes of one machine would share memory past the network between them.
    config.insert_json5("transport/shared_memory/enabled", "false")
    for key, address in (("listen", listen), ("connect", connect)):
        endpoints = [f"tcp/{address}"] if address else []
        config.insert_json5(f"{key}/endpoints", json.dumps(endpoints))
    return zenoh.open(config)


def say(line):
    print(line, flush=True)


def wait_forever():
    threading.Event().wait()


def route(job):
    kept = session("router", job["listen"], job.get("connect"))
    say("ready")
    wait_forever()
    kept.close()


def consume(job):
    opened = session("client", connect=job["connect"])

    def take(sample):
        received = time.time_ns()
        stamp = sample.payload.to_bytes()[:128].decode("ascii", "replace").split(" ")
        say(f"{stamp[0]} {stamp[1]} {stamp[2]} {received}")

    kept = opened.declare_subscriber(job["key"], take)
    say("ready")
    wait_forever()
    kept.undeclare()


def publish_stream(address, stream, seconds, start, start_ns, lines):
    """Publishes one stream from a session of its own, as a device would."""
    priority = getattr(zenoh.Priority, stream["priority"])
    opened = session("client", connect=address)
    publisher = opened.declare_publisher(
        stream["key"], congestion_control=zenoh.CongestionControl.BLOCK, priority=priority
    )
    while not publisher.matching_status.matching:
        time.sleep(0.01)
    start.wait()
    gap = 1e9 / stream["per_second"]
    count = int(stream["per_second"] * seconds)
    for seq in range(count):
        due = start_ns[0] + int(seq * gap)
        while (left := due - time.time_ns()) > 0:
            time.sleep(left / 1e9)
        stamp = f"{stream['name']} {seq} {due} "
        # Text in which nothing repeats, as the lab's other publishers have it.
        fill = base64.b64encode(os.urandom(stream["size"]))[: max(0, stream["size"] - len(stamp))]
        publisher.put(stamp.encode() + fill)
    acked = {"name": stream["name"], "sent": count, "accepted": count, "refused": []}
    lines.append(json.dumps(acked))
    return opened


def publish(job):
    # Times on the wall, as all clients of the lab count them.
    start, start_ns, lines, kept = threading.Barrier(len(job["streams"]) + 1), [0], [], []

    def run(stream):
        words = (job["connect"], stream, job["seconds"], start, start_ns, lines)
        kept.append(publish_stream(*words))

    threads = [threading.Thread(target=run, args=(stream,)) for stream in job["streams"]]
    for thread in threads:
        thread.start()
    while start.n_waiting < len(threads):
        time.sleep(0.01)
    start_ns[0] = time.time_ns()
    say(f"began {start_ns[0]}")
    start.wait()
    for thread in threads:
        thread.join()
    for line in lines:
        say(line)
    # Everything is said; what still waits in the sessions goes on being sent.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    wait_forever()


if __name__ == "__main__":
    document = json.loads(sys.argv[1])
    {"route": route, "consume": consume, "publish": publish}[document["do"]](document)
