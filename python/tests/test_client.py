"""Ordinary records and a node's figures, against a node."""

from __future__ import annotations

import tempfile
import unittest

from test_sdk import PATIENCE, Node, program

import tidegate

LISTENER = """[[input]]
mqtt = { listen = "127.0.0.1:PORT", allow = [{ topics = ["open/#"], subscribe = ["open/#"] }] }
"""


@unittest.skipUnless(program(), "skipped: needs the program: cargo build")
class Records(unittest.TestCase):
    """Publishing, subscribing, and what comes of a node that goes away."""

    def setUp(self) -> None:
        """A folder for the nodes of one test."""
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def start(self, port: int = 0) -> Node:
        """A node that lets everybody have what is below `open/`."""
        node = Node(self.folder, mqtt=LISTENER.replace("PORT", str(port)))
        self.addCleanup(node.kill)
        return node

    def test_records_come_as_they_were_published(self) -> None:
        """Payload, properties, retained ones, and only to the subscription that wants them."""
        node = self.start()
        with tidegate.Client(node.mqtt, name="seven") as client:
            client.publish("open/state", "on", retain=True)
            with client.subscribe("open/+") as one, client.subscribe("open/alarm", "open/a/b") as other:
                first = one.get(PATIENCE)
                assert first is not None
                self.assertEqual((first.payload, first.is_retained), (b"on", True))
                client.publish("open/alarm", b"\0stop", properties={"shift": "2"}, expires_s=60)
                client.publish("open/a/b", qos=2)
                both = [one.get(PATIENCE), other.get(PATIENCE)]
                self.assertEqual([record and record.payload for record in both], [b"\0stop", b"\0stop"])
                self.assertEqual([record and record.properties for record in both], [{"shift": "2"}] * 2)
                last = other.get(PATIENCE)
                assert last is not None
                self.assertEqual((last.topic, last.payload), ("open/a/b", b""))
            self.assertIsNone(one.get(PATIENCE))

    def test_refusals_have_a_reason(self) -> None:
        """A topic and a filter without a right, and a node that is not there."""
        node = self.start()
        with tidegate.Client(node.mqtt) as client:
            with self.assertRaisesRegex(tidegate.Refused, "Not authorized"):
                client.publish("secret/door")
            with self.assertRaisesRegex(tidegate.Refused, "Not authorized"):
                client.subscribe("secret/#")
        node.kill()
        with self.assertRaisesRegex(tidegate.NodeGone, node.mqtt):
            tidegate.Client(node.mqtt)

    def test_a_subscription_comes_back_with_its_node(self) -> None:
        """kill -9, a restart at the same port, and records again; what nobody takes is counted."""
        node = self.start()
        with tidegate.Client(node.mqtt) as client, client.subscribe("open/#", keep=2) as records:
            node.kill()
            node = self.start(int(node.mqtt.rsplit(":", 1)[1]))
            client.publish("open/1", timeout=PATIENCE)
            self.assertIsNotNone(records.get(PATIENCE))
            for number in range(2, 6):
                client.publish(f"open/{number}", timeout=PATIENCE)
            client.publish("open/last", timeout=PATIENCE)
            topics = []
            while topics[-1:] != ["open/last"]:
                record = records.get(PATIENCE)
                assert record is not None
                topics.append(record.topic)
            self.assertEqual(len(topics) + records.skipped, 5)

    def test_the_status_is_a_value(self) -> None:
        """And a node that is gone is named."""
        node = self.start()
        self.assertEqual(tidegate.status(node.http)["node"], "n")
        node.kill()
        with self.assertRaises(tidegate.NodeGone):
            tidegate.status(node.http)


if __name__ == "__main__":
    unittest.main()
