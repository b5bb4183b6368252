"""Ordinary records and a node's figures, against a node."""

from __future__ import annotations

import asyncio
import concurrent.futures
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

from test_sdk import PATIENCE, ROOT, Node, program

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

    def test_many_are_sent_before_the_first_is_answered(self) -> None:
        """Each has an answer of its own; those without a right say so."""
        node = self.start()
        with tidegate.Client(node.mqtt) as client, client.subscribe("open/#") as records:
            sent = [client.send(f"open/{number}") for number in range(300)]
            refused = client.send("secret/door")
            done, late = concurrent.futures.wait([*sent, refused], PATIENCE)
            self.assertEqual((len(done), len(late)), (301, 0))
            self.assertTrue(all(one.exception() is None for one in sent))
            self.assertIsInstance(refused.exception(), tidegate.Refused)
            came = [records.get(PATIENCE) for _ in sent]
            self.assertEqual([one and one.topic for one in came], [f"open/{number}" for number in range(300)])
        self.assertIsInstance(client.send("open/late").exception(), tidegate.NodeGone)

    def test_asyncio(self) -> None:
        """Publishing, subscribing, refusals and status, without a thread of the caller's."""
        node = self.start()

        async def all_of_it() -> list[str]:
            async with tidegate.aio.Client(node.mqtt) as client, await client.subscribe("open/#") as records:
                await asyncio.gather(*(client.publish(f"open/{number}") for number in range(100)))
                with self.assertRaisesRegex(tidegate.Refused, "Not authorized"):
                    await client.publish("secret/door")
                with self.assertRaisesRegex(tidegate.Refused, "Not authorized"):
                    await client.subscribe("secret/#")
                self.assertEqual((await tidegate.aio.status(node.http))["node"], "n")
                topics = []
                async for record in records:
                    topics.append(record.topic)
                    if len(topics) == 100:
                        await records.close()
                return topics

        topics = asyncio.run(asyncio.wait_for(all_of_it(), PATIENCE))
        self.assertEqual(topics, [f"open/{number}" for number in range(100)])

    def test_the_status_is_a_value(self) -> None:
        """And a node that is gone is named."""
        node = self.start()
        self.assertEqual(tidegate.status(node.http)["node"], "n")
        self.assertEqual(tidegate.status(node.http.removeprefix("http://"))["node"], "n")
        with self.assertRaisesRegex(tidegate.NodeGone, "it answers 404 Not Found"):
            tidegate.status(f"{node.http}/page")
        node.kill()
        with self.assertRaisesRegex(tidegate.NodeGone, r"nothing listens there: .* \[http\] listen"):
            tidegate.status(node.http)


class Mistakes(unittest.TestCase):
    """What is said of addresses and files that are wrong, and what needs which package."""

    def test_an_address_is_a_host_and_a_port(self) -> None:
        """Or a host alone; everything else is named, with an example."""
        from tidegate._address import split

        for address, expected in {
            "10.0.0.7": ("10.0.0.7", 1883),
            "gate.example:8883": ("gate.example", 8883),
            "::1": ("::1", 1883),
            "[::1]": ("::1", 1883),
            "[::1]:8883": ("::1", 8883),
        }.items():
            self.assertEqual(split(address, tidegate.DEFAULT_MQTT), expected)
        for address in ["", ":1883", "gate:", "gate:mqtt", "gate:0", "gate:65536", "mqtt://gate:1883"]:
            with self.assertRaisesRegex(ValueError, "127.0.0.1:1883"):
                tidegate.Client(address)

    def test_who_does_not_answer_is_told_with_a_cure(self) -> None:
        """A name that nobody has, a port at which nobody listens, and one at which somebody else does."""
        with self.assertRaisesRegex(tidegate.NodeGone, "check the name"):
            tidegate.Client("no-such-host.invalid:1883")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            with self.assertRaisesRegex(tidegate.NodeGone, "tls=Tls"):
                tidegate.Client(f"127.0.0.1:{port}", timeout=0.2)
        with self.assertRaisesRegex(tidegate.NodeGone, "is the node running"):
            tidegate.Client(f"127.0.0.1:{port}")

    def test_a_file_of_tls_is_named(self) -> None:
        """The authority's, and the certificate's."""
        with tempfile.TemporaryDirectory() as folder:
            empty = pathlib.Path(folder) / "empty.pem"
            empty.write_text("")
            for ca in [empty, pathlib.Path(folder) / "none.pem"]:
                with self.assertRaisesRegex(ValueError, f"ca {re.escape(str(ca))}"):
                    tidegate.Client(tls=tidegate.Tls(ca))

    @unittest.skipUnless(program(), "skipped: needs the program: cargo build")
    def test_a_certificate_that_is_not_trusted_is_told_with_a_cure(self) -> None:
        """By another authority, and for another name."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for authority in ["ours", "other"]:
            subprocess.run([program() or "", "keys", "init", authority], cwd=folder, check=True, capture_output=True)
        issue = [program() or "", "keys", "issue", "ours", "gate", "--host", "localhost"]
        subprocess.run(issue, cwd=folder, check=True, capture_output=True)
        tls = f'tls = {{ certificate = "{folder}/ours/gate.pem", key = "{folder}/ours/gate.key" }}'
        node = Node(folder, mqtt=f'[[input]]\nmqtt = {{ listen = "127.0.0.1:0", {tls} }}\n')
        self.addCleanup(node.kill)
        port = node.mqtt.rsplit(":", 1)[1].split()[0]
        with self.assertRaisesRegex(tidegate.NodeGone, "name the authority"):
            tidegate.Client(f"localhost:{port}", tls=tidegate.Tls(f"{folder}/other/ca.pem"))
        with self.assertRaisesRegex(tidegate.NodeGone, "a name or address that its certificate has"):
            tidegate.Client(f"127.0.0.1:{port}", tls=tidegate.Tls(f"{folder}/ours/ca.pem"))
        with tidegate.Client(f"localhost:{port}", tls=tidegate.Tls(f"{folder}/ours/ca.pem")) as client:
            client.publish("a")

    @unittest.skipUnless(program(), "skipped: needs the program: cargo build")
    def test_who_has_no_certificate_is_told_so(self) -> None:
        """At once, and not as silence: the node asks for one."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for authority in ["ours", "other"]:
            subprocess.run([program() or "", "keys", "init", authority], cwd=folder, check=True, capture_output=True)
            issue = [program() or "", "keys", "issue", authority, "gate", "--host", "localhost"]
            subprocess.run(issue, cwd=folder, check=True, capture_output=True)
        own = f'certificate = "{folder}/ours/gate.pem", key = "{folder}/ours/gate.key"'
        tls = f'tls = {{ {own}, client_ca = "{folder}/ours/ca.pem" }}'
        node = Node(folder, mqtt=f'[[input]]\nmqtt = {{ listen = "127.0.0.1:0", {tls} }}\n')
        self.addCleanup(node.kill)
        port = node.mqtt.rsplit(":", 1)[1].split()[0]
        nobody = tidegate.Tls(f"{folder}/ours/ca.pem")
        stranger = tidegate.Tls(nobody.ca, f"{folder}/other/gate.pem", f"{folder}/other/gate.key")
        for tls in [nobody, stranger]:
            with self.assertRaisesRegex(tidegate.NodeGone, "does not take our certificate, or wants one"):
                tidegate.Client(f"localhost:{port}", tls=tls, timeout=60)

    def test_records_need_paho_only(self) -> None:
        """Frames say what is to be installed."""
        code = """
import sys
for name in ["grpc", "numpy", "google.protobuf"]:
    sys.modules[name] = None
import tidegate
tidegate.Client, tidegate.aio.Client, tidegate.status, tidegate.__version__
try:
    tidegate.VideoCapture
except ImportError as error:
    print(error)
"""
        environment = {"PYTHONPATH": str(ROOT / "python/src")}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        self.assertIn("pip install 'tidegate[frames]'", done.stdout)

    def test_the_version_is_that_of_the_program(self) -> None:
        """One number in two files."""
        cargo = (ROOT / "Cargo.toml").read_text()
        self.assertIn(f'\nversion = "{tidegate.__version__}"\n', cargo)


if __name__ == "__main__":
    unittest.main()
