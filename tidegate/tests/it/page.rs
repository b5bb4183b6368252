//! The status page in a browser: on a desk and on a phone, light and dark, with load, and when the node dies.

mod fleet;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use tidegate::services::cameras::test_picture;

use crate::support::browser::Browser;
use crate::support::process::Node;

/// A node with something for every table, and an output that nobody answers.
fn config(folder: &str) -> String {
    format!(
        r#"
        [node]
        name = "gate-7"
        [http]
        listen = "127.0.0.1:0"
        [log]
        directory = "{folder}/log"
        [[input]]
        mqtt = {{ listen = "127.0.0.1:0" }}
        [[stream]]
        name = "alarms"
        topics = ["plant/alarms"]
        class = "ls"
        to = ["local"]
        [[stream]]
        name = "measured-at-the-line"
        topics = ["plant/#"]
        class = "nm"
        to = ["cloud"]
        full = "drop-oldest"
        memory = "64KiB"
        accept = "memory"
        [[operator]]
        name = "clean"
        from = ["plant/raw"]
        to = "plant/clean"
        do = [{{ parse = "json" }}]
        [[output]]
        name = "local"
        sink = {{ discard = true }}
        [[output]]
        name = "cloud"
        mqtt = {{ url = "mqtt://127.0.0.1:1" }}
        [frames]
        listen = "127.0.0.1:0"
        [[camera]]
        name = "door"
        source = "{folder}/pictures"
        "#
    )
}

fn packet(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![kind];
    let mut left = body.len();
    loop {
        packet.push((left % 128) as u8 | if left > 127 { 0x80 } else { 0 });
        left /= 128;
        if left == 0 {
            break;
        }
    }
    packet.extend(body);
    packet
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

/// A client by MQTT 3.1.1.
fn client(address: &str, id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = [b"\x00\x04MQTT\x04\x02\x00\x00".as_slice(), &text(id)].concat();
    stream.write_all(&packet(0x10, &body)).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"\x20\x02\x00\x00");
    stream
}

/// Who subscribes and reads nothing after the answer, and who publishes more than the node may hold.
fn load(address: &str) -> Vec<TcpStream> {
    let mut panel = client(address, "panel-in-the-control-room-of-the-plant");
    let filter = [b"\x00\x01".as_slice(), &text("plant/clean"), b"\x01"].concat();
    panel.write_all(&packet(0x82, &filter)).unwrap();
    panel.read_exact(&mut [0; 5]).unwrap();
    let mut sensor = client(address, "sensor");
    let publish = |topic: &str, payload: &[u8]| packet(0x30, &[&text(topic), payload].concat());
    for number in 0..200 {
        let raw = if number % 50 == 0 { "no json".into() } else { format!("{{\"t\": {number}}}") };
        sensor.write_all(&publish("plant/alarms", b"pressure high")).unwrap();
        sensor.write_all(&publish("plant/raw", raw.as_bytes())).unwrap();
        sensor.write_all(&publish("plant/bulk", &[b'.'; 2000])).unwrap();
    }
    vec![panel, sensor]
}

/// The largest distance by which something stands beyond the right edge, and what does.
const OVERFLOW: &str = "(() => {
    const wide = [...document.querySelectorAll('body *')]
        .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5);
    const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    return over > 0 || wide.length ? over + ' ' + wide.map(one => one.outerHTML.slice(0, 80)).join(' | ') : '';
})()";

/// Values of a class that can be seen without scrolling sideways, by their labels.
const SEEN: &str = "[...document.querySelectorAll('#classes tbody tr')].map(row =>
    [...row.querySelectorAll('td')].filter(cell => {
        const box = cell.getBoundingClientRect();
        return box.width > 0 && box.left >= 0 && box.right <= document.documentElement.clientWidth;
    }).map(cell => cell.dataset.label).join(','))";

#[test]
fn the_page_fits_a_desk_and_a_phone_light_and_dark_and_says_what_is_stale() {
    let Some(mut browser) = Browser::start("page") else {
        println!("skipped: needs chromium-headless-shell or chromium, not found");
        return;
    };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("pictures")).unwrap();
    std::fs::write(folder.join("pictures/0.jpg"), test_picture(64, 48, 80)).unwrap();
    let mut node = Node::start("page", &config(folder.to_str().unwrap()));
    let address = node.wait_for("MQTT at ");
    let page = node.wait_for("status page at ");
    node.wait_for("ready");
    let _clients = load(&address);
    let mut colours = Vec::new();
    for (width, scheme) in
        [(1280, "light"), (1280, "dark"), (1190, "light"), (360, "light"), (360, "dark")]
    {
        browser.look_by(width, scheme);
        browser.open(&page);
        // What was dropped and what got late are there: then the load has come.
        browser.wait_for(
            "['classes', 'streams', 'outputs', 'clients', 'operators', 'cameras', 'log'].every(id =>
                document.getElementById(id)?.hidden === false)
            && /full \\d/.test(document.getElementById('streams').textContent)
            && /[1-9]/.test(document.querySelector('#classes tr:nth-child(2) td:nth-child(7)').textContent)",
        );
        let case = format!("{width} {scheme}");
        assert_eq!(browser.value(OVERFLOW), "", "{case}: something is wider than the screen");
        for row in browser.value(SEEN).as_array().unwrap() {
            let row = row.as_str().unwrap();
            assert!(row.contains("p99, last minute") && row.contains("dropped"), "{case}: {row}");
        }
        let told = browser.value("document.body.innerText");
        let told = told.as_str().unwrap();
        for words in [
            "Output cloud is down: 127.0.0.1:1: Connection refused",
            "panel-in-the-control-room-of-the-plant",
            "plant/raw",
            "door",
            "parse 4",
        ] {
            assert!(told.contains(words), "{case}: no {words:?} in\n{told}");
        }
        colours.push(browser.value("getComputedStyle(document.body).backgroundColor"));
        browser.picture(&format!("page-{width}-{scheme}"));
    }
    assert!(
        colours[0] == colours[2] && colours[3] != colours[4] && colours[0] != colours[1],
        "{colours:?}"
    );
    // Tables change in place: a row that is there stays the same one.
    browser.value("window.before = document.querySelector('#classes tbody tr'); 1");
    let uptime = browser.value("document.getElementById('uptime').textContent");
    browser.wait_for(&format!("document.getElementById('uptime').textContent !== {uptime}"));
    assert_eq!(
        browser.value("window.before === document.querySelector('#classes tbody tr')"),
        true
    );
    assert_eq!(browser.complaints, [""; 0]);
    // What is on the page without the node is not what is.
    node.process.kill().unwrap();
    browser.wait_for("document.body.classList.contains('stale')");
    let state = browser.value("document.querySelector('[role=status]').textContent");
    assert!(state.as_str().unwrap().starts_with("the node is away since"), "{state}");
    assert_eq!(
        browser.value("getComputedStyle(document.querySelector('main')).opacity < 0.6"),
        true
    );
    browser.picture("page-stale");
}
