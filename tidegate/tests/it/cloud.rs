//! Recipes for clouds' brokers: `check` finds them right, and they work at a broker that insists on what those do.

pub(crate) mod broker;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_testbed::free_port;
use tokio::sync::watch;

pub(crate) use self::broker::{Cloud, Rules, Seen};
use crate::support::certificates::Authority;
use crate::support::process::Node;

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/cloud")
}

/// A recipe with what its reader puts in: files, and a port that is free here.
struct Recipe {
    authority: Authority,
    port: u16,
    text: String,
}

impl Recipe {
    fn new(name: &str) -> Recipe {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let authority = Authority::new(&format!("cloud-{name}-{number}"));
        let own = authority.issue("gate-7");
        let text = std::fs::read_to_string(recipes().join(format!("{name}.toml"))).unwrap();
        let port = free_port();
        for (name, text) in [("password", "secret\n"), ("token", "secret\n")] {
            write_secret(&authority.file(name), text);
        }
        let mut recipe = Recipe { authority, port, text };
        recipe.put("127.0.0.1:1883", &format!("127.0.0.1:{port}"));
        recipe.put("\"tidegate-log\"", &format!("{:?}", recipe.authority.file("log")));
        recipe.put("\"gate-7.pem\"", &format!("{:?}", own.certificate));
        recipe.put("\"gate-7.key\"", &format!("{:?}", own.key));
        for file in ["ca.pem", "password", "token"] {
            recipe.put(&format!("{file:?}"), &format!("{:?}", recipe.authority.file(file)));
        }
        recipe.text.push_str("\n[http]\nlisten = []\n");
        recipe
    }

    fn put(&mut self, old: &str, new: &str) {
        self.text = self.text.replace(old, new);
    }

    /// The same at a broker here.
    fn at(mut self, host: &str, cloud: &Cloud) -> Recipe {
        let url = format!("\"mqtts://127.0.0.1:{}\"\nca = {:?}", cloud.port, self.authority.ca());
        let ended = [":443\"", ":8883\"", "\""].map(|end| format!("\"mqtts://{host}{end}"));
        let found = ended.iter().find(|old| self.text.contains(old.as_str())).expect("its url");
        self.text = self.text.replace(found, &url);
        self
    }

    fn start(&self, name: &str) -> Node {
        let mut node = Node::start(&format!("cloud-{name}"), &self.text);
        node.wait_for("MQTT at ");
        node
    }

    /// Publishes with QoS 1 until the node has accepted it.
    fn publish(&self, topic: &str, retain: bool) {
        use std::io::{Read, Write};
        let mut client = std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        client.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a").unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"\x20\x02\x00\x00");
        let length = [2 + topic.len() as u8 + 2 + 3];
        let name = [&[0, topic.len() as u8], topic.as_bytes()].concat();
        let packet = [&[0x32 | u8::from(retain)], &length[..], &name, b"\x00\x01hot"].concat();
        client.write_all(&packet).unwrap();
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"\x40\x02\x00\x01");
    }
}

pub(crate) fn write_secret(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(new, file).unwrap();
}

fn seen_in(id: &str, password: &str) -> Seen {
    Seen::In(id.into(), password.into())
}

#[test]
fn check_finds_every_recipe_right() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(recipes()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            names.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    names.sort();
    let all =
        ["aws-iot-core", "azure-event-grid", "azure-iot-hub", "emqx", "hivemq-cloud", "mosquitto"];
    assert_eq!(names, all);
    for name in all {
        let recipe = Recipe::new(name);
        let file = recipe.authority.file("node.toml");
        std::fs::write(&file, &recipe.text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        // Where a system has no public authorities, `check` says so: any will do here.
        command.env("SSL_CERT_FILE", recipe.authority.ca());
        let output = command.args(["check", "--strict"]).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains(": right: a node"), "{name}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aws_takes_one_client_by_its_protocol() {
    let host = "a1b2c3d4e5f6g7-ats.iot.eu-central-1.amazonaws.com";
    let recipe = Recipe::new("aws-iot-core");
    let rules = Rules { alpn: Some("x-amzn-mqtt-ca"), ..Rules::of(&["gate-7"]) };
    let mut cloud = Cloud::start(&recipe.authority, rules).await;
    let recipe = recipe.at(host, &cloud);
    let node = recipe.start("aws");
    assert_eq!(cloud.next().await, seen_in("gate-7", ""));
    recipe.publish("plant/3/alarm", false);
    assert_eq!(cloud.next().await, Seen::Publish("site7/plant/3/alarm".into(), 0x02));
    node.signal();
    assert_eq!(cloud.next().await, Seen::Out("gate-7".into()));
    drop(node);
    // What such a broker refuses, in turn: another protocol, none, a client id with a number behind it.
    for (old, new, why) in [
        ("\"x-amzn-mqtt-ca\"", "\"mqtt\"", "tls"),
        ("alpn = \"x-amzn-mqtt-ca\"\n", "", "no protocol"),
        ("connections = \"one\"\n", "", "client id"),
    ] {
        assert!(recipe.text.contains(old));
        let wrong = recipe.text.replace(old, new);
        let node = Node::start("cloud-aws-wrong", &wrong);
        assert_eq!(cloud.next().await, Seen::Refused(why), "{new}");
        drop(node);
        while cloud.is_busy() {
            cloud.next().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_iot_hub_takes_a_device_with_a_token_of_now() {
    let recipe = Recipe::new("azure-iot-hub");
    let user = "plant.azure-devices.net/gate-7/?api-version=2021-04-12";
    let token = |end: u64| format!("SharedAccessSignature sr=plant&sig=a&se={end}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let (first, second) = (token(now.as_secs() + 3600), token(now.as_secs() + 7200));
    let (now_good, good) = watch::channel(first.clone());
    let login = Some((user, good));
    let rules = Rules { is_new: false, login, ..Rules::of(&["gate-7"]) };
    let mut cloud = Cloud::start(&recipe.authority, rules).await;
    let mut recipe = recipe.at("plant.azure-devices.net", &cloud);
    let line = recipe.text.lines().find(|line| line.starts_with("password_command")).unwrap();
    let (line, file) = (line.to_owned(), recipe.authority.file("token"));
    recipe.put(&line, &format!("password_command = [\"cat\", {:?}]", file));
    write_secret(&file, &first);
    let node = recipe.start("hub");
    assert_eq!(cloud.next().await, seen_in("gate-7", &first));
    recipe.publish("plant/3/alarm", true);
    let topic = "devices/gate-7/messages/events/topic=plant%2F3%2Falarm";
    assert_eq!(cloud.next().await, Seen::Publish(topic.into(), 0x02), "and not retained");
    now_good.send(second.clone()).unwrap();
    write_secret(&file, &second);
    cloud.expire();
    assert_eq!(cloud.next().await, Seen::Refused("no longer"));
    assert_eq!(cloud.next().await, Seen::Out("gate-7".into()));
    assert_eq!(cloud.next().await, seen_in("gate-7", &second));
    recipe.publish("plant/4/alarm", false);
    assert_eq!(cloud.next().await, Seen::Publish(topic.replace('3', "4"), 0x02));
    // It hangs up on who speaks MQTT 5 to it.
    let newer = recipe.text.replace("version = \"3.1.1\"", "version = \"5\"");
    drop(node);
    assert_eq!(cloud.next().await, Seen::Out("gate-7".into()));
    let node = Node::start("cloud-hub-5", &newer);
    assert_eq!(cloud.next().await, Seen::Refused("version"));
    drop(node);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_grid_gets_no_retained_record() {
    let recipe = Recipe::new("azure-event-grid");
    let rules = Rules { retains: false, ..Rules::of(&["gate-7"]) };
    let mut cloud = Cloud::start(&recipe.authority, rules).await;
    let mut recipe = recipe.at("plant.westeurope-1.ts.eventgrid.azure.net", &cloud);
    recipe.put("connections = \"one\"", "connections = \"one\"\nretain = true");
    let mut node = Node::start("cloud-grid", &recipe.text);
    node.wait_for_all(&["MQTT at ", "the broker retains nothing"]);
    assert_eq!(cloud.next().await, seen_in("gate-7", ""));
    recipe.publish("plant/3/alarm", true);
    assert_eq!(cloud.next().await, Seen::Publish("site7/plant/3/alarm".into(), 0x02));
    recipe.publish("plant/4/alarm", false);
    assert_eq!(cloud.next().await, Seen::Publish("site7/plant/4/alarm".into(), 0x02));
}

/// Of ten publishes that the far end takes unacknowledged, one is kept for alarms: what the node had ordered beyond would
/// stand in front of them.
#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_is_next_though_the_far_end_takes_no_more_bulk() {
    let recipe = Recipe::new("azure-event-grid");
    let rules = Rules { receive_maximum: 10, holds: true, ..Rules::of(&["gate-7"]) };
    let mut cloud = Cloud::start(&recipe.authority, rules).await;
    let recipe = recipe.at("plant.westeurope-1.ts.eventgrid.azure.net", &cloud);
    let _node = recipe.start("window");
    assert_eq!(cloud.next().await, seen_in("gate-7", ""));
    for _ in 0..30 {
        recipe.publish("plant/3/bulk", false);
    }
    let bulk = Seen::Publish("site7/plant/3/bulk".into(), 0x02);
    for _ in 0..9 {
        assert_eq!(cloud.next().await, bulk);
    }
    recipe.publish("plant/3/alarm", false);
    assert_eq!(cloud.next().await, Seen::Publish("site7/plant/3/alarm".into(), 0x02));
    cloud.release();
    for _ in 9..30 {
        assert_eq!(cloud.next().await, bulk);
    }
}

#[test]
fn a_shared_access_signature_is_signed_by_the_devices_key() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let authority = Authority::new("cloud-sas");
    let file = authority.file("device.key");
    write_secret(&file, &STANDARD.encode(b"a device's key"));
    let output = Command::new(recipes().join("azure-sas.sh"))
        .arg("plant.azure-devices.net/devices/gate-7")
        .arg(&file)
        .arg("3600")
        .output()
        .unwrap();
    if !output.status.success() {
        println!("skipped: needs openssl and od: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let said = String::from_utf8(output.stdout).unwrap();
    let (fields, ends) = said.trim_end().split_once("&se=").unwrap();
    let (resource, signature) = fields.split_once("&sig=").unwrap();
    let resource = resource.strip_prefix("SharedAccessSignature sr=").unwrap();
    assert_eq!(resource, "plant.azure-devices.net%2Fdevices%2Fgate-7");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"a device's key");
    let signed = ring::hmac::sign(&key, format!("{resource}\n{ends}").as_bytes());
    let wanted =
        STANDARD.encode(signed).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    assert_eq!(signature, wanted);
}
