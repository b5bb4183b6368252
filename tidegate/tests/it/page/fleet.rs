//! The status page of a node that borrows a neighbour's uplink and mirrors its log there.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidegate_testbed::free_port;

use super::{OVERFLOW, client, packet, text};
use crate::support::browser::Browser;
use crate::support::certificates::Authority;
use crate::support::process::Node;

/// Two nodes that know and mirror each other. Only gate-8 reaches the cloud.
struct Site {
    authority: Authority,
    orchestrator: u16,
    /// Of each node: for neighbours, and for their logs.
    fleet: [u16; 2],
    mirror: [u16; 2],
}

impl Site {
    fn files(&self, name: &str) -> String {
        let own = self.authority.issue(name);
        let ca = self.authority.ca();
        format!("ca = {ca:?}\ncertificate = {:?}\nkey = {:?}\n", own.certificate, own.key)
    }

    fn node(&self, own: usize, cloud: &str) -> Node {
        let (name, peer) = [("gate-7", "gate-8"), ("gate-8", "gate-7")][own];
        let other = 1 - own;
        let text = format!(
            "[node]\nname = \"{name}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[log]\ndirectory = {:?}\n\
             [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
             [[stream]]\ntopics = [\"plant/#\"]\nclass = \"ls\"\nfull = \"drop-oldest\"\n\
             [[output]]\nname = \"cloud\"\nmqtt = {{ url = \"mqtt://{cloud}\" }}\n\
             rate = \"8mbit\"\nlaw = \"known\"\n\
             [mirror]\nto = \"localhost:{}\"\nlisten = \"127.0.0.1:{}\"\ndirectory = {:?}\nafter = \"1h\"\n\
             [fleet]\norchestrators = [\"localhost:{}\"]\nlisten = \"127.0.0.1:{}\"\n{}\
             [[fleet.peer]]\nname = \"{peer}\"\nto = \"127.0.0.1:{}\"\n",
            self.authority.file(&format!("log-{name}")),
            self.mirror[other],
            self.mirror[own],
            self.authority.file(&format!("kept-{name}")),
            self.orchestrator,
            self.fleet[own],
            self.files(name),
            self.fleet[other],
        );
        Node::start(&format!("page-{name}"), &text)
    }
}

/// Publishes for as long as it is wanted, and waits for each acknowledgement: the log has it then.
fn publish(address: &str, is_over: &AtomicBool) {
    let mut sensor = client(address, "sensor");
    let body = [text("plant/state"), vec![0, 1], vec![b'.'; 2000]].concat();
    while !is_over.load(Ordering::Relaxed) {
        sensor.write_all(&packet(0x32, &body)).unwrap();
        sensor.read_exact(&mut [0; 4]).unwrap();
    }
}

#[test]
fn a_node_shows_what_neighbours_do_for_it_and_it_for_them() {
    let Some(mut browser) = Browser::start("page-fleet") else {
        println!("skipped: needs chromium-headless-shell or chromium, not found");
        return;
    };
    let ports = || [free_port(), free_port()];
    let authority = Authority::new("page-fleet");
    let site = Site { authority, orchestrator: free_port(), fleet: ports(), mirror: ports() };
    let mut cloud = Node::start(
        "page-cloud",
        "[http]\nlisten = []\n[[input]]\nmqtt = { listen = \"127.0.0.1:0\" }\n\
         [[output]]\nsink = { discard = true }\n",
    );
    let far = cloud.wait_for("MQTT at ");
    let leader = format!(
        "[orchestrator]\nlisten = \"127.0.0.1:{}\"\n{}",
        site.orchestrator,
        site.files("orchestrator")
    );
    let mut leader = Node::orchestrator("page-orchestrator", &leader);
    leader.wait_for("ready");
    let mut neighbour = site.node(1, &far);
    neighbour.wait_for("ready");
    let mut node = site.node(0, "127.0.0.1:1");
    let address = node.wait_for("MQTT at ");
    let page = node.wait_for("status page at ");
    let is_over = Arc::new(AtomicBool::new(false));
    let publisher = thread::spawn({
        let is_over = is_over.clone();
        move || publish(&address, &is_over)
    });
    for (width, scheme) in [(1280, "light"), (360, "dark")] {
        browser.look_by(width, scheme);
        browser.open(&page);
        browser.wait_for(
            "/borrowed from it/.test(document.getElementById('fleet')?.textContent)
            && /copied to the mirror.*kept for its node/s.test(document.getElementById('mirror')?.textContent)",
        );
        let case = format!("{width} {scheme}");
        assert_eq!(browser.value(OVERFLOW), "", "{case}: something is wider than the screen");
        let told = browser.value("document.body.innerText");
        let told = told.as_str().unwrap();
        for words in ["An orchestrator leads. Neighbours up: 1 of 1.", "log of gate-8"] {
            assert!(told.contains(words), "{case}: no {words:?} in\n{told}");
        }
        browser.picture(&format!("page-fleet-{width}-{scheme}"));
    }
    // Who leads no more and who is away stand above all else.
    drop(leader);
    let has = |words: &str| {
        format!("document.getElementById('troubles').textContent.includes('{words}')")
    };
    browser.wait_for(&has("No orchestrator leads"));
    drop(neighbour);
    browser.wait_for(&has("The mirror is away"));
    assert_eq!(browser.complaints, [""; 0]);
    browser.picture("page-alone");
    is_over.store(true, Ordering::Relaxed);
    publisher.join().unwrap();
}
