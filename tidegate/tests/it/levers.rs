//! All levers at once: a node whose uplink is too small runs a script on what it owns for a group, sends it by two paths
//! of a link, borrows a neighbour's uplink and shrinks a camera's frames. Then a hundred records, and the frames, are
//! explained, and what is told is held against what the run itself knows.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate::services::cameras::wire::{FrameMessage, PolicyMessage, SubscribeRequest};
use tidegate_testbed::{free_port, wait_until};
use tonic::Code;

use crate::frames::client::{Client, Watch, jpeg, live};
use crate::group::client::connect_with;
use crate::link::far::files;
use crate::support::PATIENCE;
use crate::support::certificates::Authority;
use crate::support::process::Node;

/// What a script does to records, by their topic.
const SCRIPT: &str = "function on_message(h)
  local topic = h:message():header():get(\"path\")
  if topic == \"t/drop\" then h:message():drop() end
  if topic == \"t/front\" then h:message():moveToFront() end
end
";
/// Topics, and what is to be said of their records: the class, and what the script did.
const TOPICS: [(&str, &str, Option<&str>); 4] = [
    ("t/alarm", "ls", None),
    ("t/front", "lt", Some("judge: moveToFront, ")),
    ("t/drop", "lt", Some("judge: drop, ")),
    ("t/plain", "lt", None),
];
const EXPLAINED: usize = 100;
/// Between two records of a publisher: both together are more than the uplink carries.
const PAUSE: Duration = Duration::from_millis(5);
/// Between two frames: a camera takes what it can, and is to leave something to others.
const PERIOD: Duration = Duration::from_millis(800);

/// The nodes: `gate-1` does it all, `gate-2` lends, `gate-3` is of gate-1's group, each cloud is at the end of one uplink.
struct World {
    folder: PathBuf,
    authority: Arc<Authority>,
    ports: [u16; 10],
}

impl World {
    fn new() -> World {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("levers");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("judge.luau"), SCRIPT).unwrap();
        let ports = std::array::from_fn(|_| free_port());
        World { folder, authority: Arc::new(Authority::new("levers")), ports }
    }

    fn own(&self, name: &str) -> String {
        files(&self.authority, &self.authority.issue(name))
    }

    fn section(&self, name: &str) -> String {
        self.own(name).replace(", ", "\n")
    }

    fn start(name: &str, config: &str) -> Node {
        let mut node = Node::start(&format!("levers-{name}"), config);
        node.wait_for("ready");
        let errors = node.take_log();
        std::thread::spawn(move || std::io::copy(&mut { errors }, &mut std::io::sink()));
        node
    }

    fn head(name: &str) -> String {
        format!("[node]\nname = {name:?}\nstop_timeout = \"20s\"\n[http]\nlisten = []\n")
    }

    /// The far end of an uplink.
    fn cloud(&self, name: &str, (link, keys): (u16, &str), more: &str) -> Node {
        World::start(
            name,
            &format!(
                "{}[[input]]\nlink = {{ listen = \"127.0.0.1:{link}\", {}{keys} }}\n\
                 [[output]]\nname = \"files\"\nsink = {{ directory = {:?} }}\n{more}",
                World::head(name),
                self.own(name),
                self.folder.join(name),
            ),
        )
    }

    /// That of gate-1's uplink, where subscribers of cameras come; and that of gate-2's, which brings frames there.
    fn clouds(&self, lent: u16) -> [Node; 2] {
        let [cloud, edge, ..] = self.ports;
        let frames =
            format!("[frames]\nlisten = \"127.0.0.1:{edge}\"\n{}\n", self.section("cloud-1"));
        let on = format!(
            "[[output]]\nname = \"on\"\nlink = {{ to = \"127.0.0.1:{cloud}\", {} }}\n\
             [[stream]]\ntopics = [\"$frames/#\"]\nto = [\"on\"]\n",
            self.own("cloud-2"),
        );
        let vouches = ", vouches = { cloud-2 = [\"gate-1\"] }";
        [self.cloud("cloud-1", (cloud, vouches), &frames), self.cloud("cloud-2", (lent, ""), &on)]
    }

    fn orchestrator(&self) -> Node {
        let mut node = Node::orchestrator(
            "levers-orchestrator",
            &format!(
                "[orchestrator]\nlisten = \"127.0.0.1:{}\"\noperators = [\"ops\"]\n{}\n",
                self.ports[2],
                self.section("orchestrator"),
            ),
        );
        let errors = node.take_log();
        std::thread::spawn(move || std::io::copy(&mut { errors }, &mut std::io::sink()));
        node
    }

    /// What both gates of the fleet say of it, and of their uplink.
    fn fleet(
        &self,
        name: &str,
        (cloud, paths): (u16, &str),
        own: u16,
        peer: (&str, u16),
    ) -> String {
        format!(
            "[[output]]\nname = \"cloud\"\nrate = \"800kbit\"\n\
             link = {{ to = \"127.0.0.1:{cloud}\", {}{paths} }}\n\
             [fleet]\norchestrators = [\"localhost:{}\"]\nlisten = \"127.0.0.1:{own}\"\n{}\n\
             [[fleet.peer]]\nname = {:?}\nto = \"127.0.0.1:{}\"\n",
            self.own(name),
            self.ports[2],
            self.section(name),
            peer.0,
            peer.1,
        )
    }

    fn group(&self, own: u16, other: (&str, u16)) -> String {
        format!(
            "[group]\nlisten = \"127.0.0.1:{own}\"\n\
             members = [{{ name = {:?}, address = \"127.0.0.1:{}\" }}]\n\
             [[placed]]\nname = \"t\"\ntopics = [\"t/#\"]\nowner = \"gate-1\"\n",
            other.0, other.1,
        )
    }

    fn gate_1(&self) -> Node {
        let [cloud, edge, _, own, peer, mqtt, group, third, frames, _] = self.ports;
        let paths = ", paths = [\"127.0.0.2\", \"127.0.0.3\"]";
        let config = format!(
            "{}[log]\ndirectory = {:?}\n[[input]]\nmqtt = {{ listen = \"127.0.0.1:{mqtt}\" }}\n\
             [[script]]\nname = \"judge\"\nfile = {:?}\n\
             [[stream]]\nname = \"alarms\"\ntopics = [\"t/alarm\"]\nclass = \"ls\"\n\
             [[stream]]\nname = \"bulk\"\ntopics = [\"t/#\"]\nclass = \"lt\"\nscript = \"judge\"\n\
             {}{}[frames]\nlisten = \"127.0.0.1:{frames}\"\nserver = \"127.0.0.1:{edge}\"\nto = \"cloud\"\n\
             directory = {:?}\nca = {:?}\n[[camera]]\nname = \"gate\"\n",
            World::head("gate-1"),
            self.folder.join("log"),
            self.folder.join("judge.luau"),
            self.fleet("gate-1", (cloud, paths), own, ("gate-2", peer)),
            self.group(group, ("gate-3", third)),
            self.folder.join("frames"),
            self.authority.ca(),
        );
        World::start("gate-1", &config)
    }

    fn gate_2(&self, cloud: u16) -> Node {
        let [_, _, _, peer, own, ..] = self.ports;
        let config = format!(
            "{}[[input]]\nmqtt = {{ listen = \"127.0.0.1:{}\" }}\n{}",
            World::head("gate-2"),
            free_port(),
            self.fleet("gate-2", (cloud, ""), own, ("gate-1", peer)),
        );
        World::start("gate-2", &config)
    }

    fn gate_3(&self, mqtt: u16) -> Node {
        let [.., group, own, _, _] = self.ports;
        let keys = self.section("gate-3");
        let group = self
            .group(own, ("gate-1", group))
            .replace("[[placed]]", &format!("{keys}\n[[placed]]"));
        let config = format!(
            "{}[[input]]\nmqtt = {{ listen = \"127.0.0.1:{mqtt}\" }}\n{group}\
             [[output]]\nsink = {{ discard = true }}\n",
            World::head("gate-3"),
        );
        World::start("gate-3", &config)
    }

    fn tidegate(&self, words: &[&str]) -> String {
        let config = Path::new(env!("CARGO_TARGET_TMPDIR")).join("levers-gate-1.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.args(words).arg("-c").arg(config).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Payloads of the sink of a cloud.
    fn arrived(&self, cloud: &str) -> BTreeSet<String> {
        let path = self.folder.join(cloud).join("records.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // The last line may be in the making.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(payload).collect()
    }

    /// An application at the cloud that sees the camera.
    async fn watch(&self) -> Watch {
        let mut period = tokio::time::interval(Duration::from_millis(100));
        let end = tokio::time::Instant::now() + PATIENCE;
        let policy = PolicyMessage::Degrade.into();
        let request = SubscribeRequest { policy, ..live("gate", 2_000, 0.5) };
        loop {
            period.tick().await;
            assert!(tokio::time::Instant::now() < end, "it is not served");
            let client = Client::proven(self.ports[1], &self.authority, "app").await;
            let Ok(mut client) = client else { continue };
            match client.subscribe(request.clone()).await {
                Ok(watch) => return watch,
                Err(status) if matches!(status.code(), Code::NotFound | Code::Unavailable) => {}
                Err(status) => panic!("{status}"),
            }
        }
    }
}

/// What is behind the dots of a payload.
fn payload(line: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    value["text"].as_str().unwrap().trim_end_matches('.').to_owned()
}

/// Publishes by MQTT with QoS 1, one by one, until it is told to stop; answers how many were acknowledged.
fn publish(port: u16, name: &'static str, stop: Arc<AtomicBool>) -> JoinHandle<Vec<String>> {
    let (mut client, _) = connect_with(port, name, true);
    std::thread::spawn(move || {
        let mut sent = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let number = sent.len();
            let topic = TOPICS[number % TOPICS.len()].0;
            let text = format!("{name}:{topic}:{number}");
            let length = 2 + topic.len() + 2 + 400;
            let mut packet = vec![0x32, (length % 128 + 128) as u8, (length / 128) as u8];
            packet.extend([0, topic.len() as u8]);
            packet.extend(topic.as_bytes());
            packet.extend([0, 1]);
            packet.extend(format!("{text:.<400}").as_bytes());
            let mut answer = [0; 4];
            client.write_all(&packet).unwrap();
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, *b"\x40\x02\x00\x01");
            sent.push(text);
            std::thread::sleep(PAUSE);
        }
        sent
    })
}

/// Publishes frames.
async fn film(port: u16, authority: Arc<Authority>) {
    let mut client = Client::proven(port, &authority, "cam-host").await.unwrap();
    let mut camera = client.publish().await.unwrap();
    let mut period = tokio::time::interval(PERIOD);
    loop {
        period.tick().await;
        assert_eq!(camera.take("gate", 0, &jpeg()).await.error, "");
    }
}

/// The lines of an explanation, by their first word.
fn lines(told: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut lines: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in told.lines().skip(1) {
        let (word, rest) = line.trim_start().split_once(' ').unwrap_or((line, ""));
        lines.entry(word).or_default().push(rest.trim_start());
    }
    lines
}

/// Where the run knows that a record went: by gate-1's own uplink, by that of gate-2.
struct Arrivals {
    own: BTreeSet<String>,
    lent: BTreeSet<String>,
}

/// That an explanation tells every lever that touched a record, and no other one.
fn is_complete(told: &str, text: &str, arrivals: &Arrivals) {
    let lines = lines(told);
    let one = |word: &str| match lines.get(word).map(Vec::as_slice) {
        None => None,
        Some([line]) => Some(*line),
        Some(_) => panic!("twice {word}: {told}"),
    };
    let mut parts = text.split(':');
    let (publisher, topic) = (parts.next().unwrap(), parts.next().unwrap());
    let (_, class, script) = TOPICS.iter().find(|(name, ..)| *name == topic).unwrap();
    let owner = format!("this node owns its topic; {publisher} accepted it first");
    assert_eq!(one("owner"), Some(owner.as_str()), "{told}");
    assert!(one("class").unwrap().starts_with(&format!("{class}, bound ")), "{told}");
    match (script, one("script")) {
        (None, None) => {}
        (Some(script), Some(line)) => {
            assert!(line.starts_with(script) && line.ends_with(" after its arrival"), "{told}");
        }
        _ => panic!("script: {told}"),
    }
    let end = one("cloud").unwrap();
    if topic == "t/drop" {
        assert!(end.starts_with("dropped (script) by "), "{told}");
        assert_eq!((one("queue"), one("path")), (None, None), "{told}");
        return;
    }
    let left = one("queue").unwrap();
    assert!(left.starts_with(&format!("left class {class}")), "{told}");
    // One that moved to the front, or went by a neighbour, tells when.
    let (is_own, is_lent) = (arrivals.own.contains(text), arrivals.lent.contains(text));
    let is_timed = left.contains(" after its arrival");
    assert!(is_timed || left.ends_with("within its bound"), "{told}");
    assert!(is_timed || !(is_lent && !is_own || script.is_some()), "{told}");
    match (is_own, is_lent) {
        (true, false) => {
            assert!(end.starts_with("confirmed by "), "{told}");
            let paths = one("path").unwrap();
            let is_path =
                |path: &str| ["127.0.0.2", "127.0.0.3"].iter().any(|ip| path.contains(ip));
            assert!(paths.split(", ").all(is_path), "{told}");
        }
        (false, true) => assert!(end.starts_with("confirmed, carried by gate-2, by "), "{told}"),
        (true, true) => assert!(end.starts_with("confirmed"), "{told}"),
        (false, false) => panic!("it arrived nowhere: {told}"),
    }
}

/// That a frame's explanation names the rung at which it came.
fn is_the_rung_of(told: &str, frame: &FrameMessage) {
    let FrameMessage { eighths, quality, .. } = frame;
    let rung = format!("{eighths}/8 of the size, quality {quality}: accuracy ");
    let lines = lines(told);
    assert!(lines["rung"].iter().any(|line| line.starts_with(&rung)), "{rung} {told}");
    // A machine that is busy may bring it late.
    let came = |line: &&str| ["delivered, ", "late, "].iter().any(|how| line.starts_with(how));
    assert!(lines["ended"].iter().any(|line| came(&&**line)), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_records_of_one_run_tell_every_lever_that_touched_them() {
    let world = Arc::new(World::new());
    let (mqtt_3, lent) = (world.ports[9], free_port());
    let _leader = world.orchestrator();
    let _clouds = world.clouds(lent);
    let _lender = world.gate_2(lent);
    let mut gate = world.gate_1();
    let _member = world.gate_3(mqtt_3);
    let film = tokio::spawn(film(world.ports[8], world.authority.clone()));
    let mut watch = world.watch().await;
    let stop = Arc::new(AtomicBool::new(false));
    let publishers =
        [publish(world.ports[5], "gate-1", stop.clone()), publish(mqtt_3, "gate-3", stop.clone())];
    let mut frames = Vec::new();
    while frames.len() < 5 || world.arrived("cloud-2").len() < 40 {
        frames.push(watch.frame().await.unwrap());
    }
    let explain = |frame: &FrameMessage| {
        world.tidegate(&["explain", "--frame", &format!("gate/{}", frame.frame)])
    };
    wait_until("the end of the last frame", || {
        explain(&frames[frames.len() - 1]).contains("ended")
    });
    drop(watch);
    film.abort();
    stop.store(true, Ordering::Relaxed);
    let sent: Vec<String> =
        publishers.into_iter().flat_map(|publisher| publisher.join().unwrap()).collect();
    let is_sent_on = |text: &&String| !text.contains(":t/drop:");
    let wanted: BTreeSet<String> = sent.iter().filter(is_sent_on).cloned().collect();
    let arrivals = || Arrivals { own: world.arrived("cloud-1"), lent: world.arrived("cloud-2") };
    wait_until("all records to arrive", || {
        let Arrivals { own, lent } = arrivals();
        wanted.iter().all(|text| own.contains(text) || lent.contains(text))
    });
    gate.signal();
    assert!(gate.end().success());

    let all = world.tidegate(&["log", "cat", "--payload", "--json"]);
    let named = all.lines().map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        (value["id"].as_str().unwrap().to_owned(), payload(line))
    });
    let named: Vec<(String, String)> = named.collect();
    assert!(named.len() >= EXPLAINED, "{} of {} are still in the log", named.len(), sent.len());
    let arrivals = arrivals();
    let (mut random, mut explained) = (7_u64, BTreeSet::new());
    while explained.len() < EXPLAINED {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        explained.insert((random >> 33) as usize % named.len());
    }
    let mut by_topic: BTreeMap<&str, usize> = BTreeMap::new();
    for (id, text) in explained.iter().map(|&place| &named[place]) {
        is_complete(&world.tidegate(&["explain", id]), text, &arrivals);
        *by_topic.entry(text.split(':').nth(1).unwrap()).or_default() += 1;
    }
    let lent = explained.iter().filter(|&&place| arrivals.lent.contains(&named[place].1)).count();
    println!("explained {by_topic:?}, {lent} of them by a neighbour, and {} frames", frames.len());
    assert_eq!(by_topic.len(), TOPICS.len());
    frames.iter().for_each(|frame| is_the_rung_of(&explain(frame), frame));
}
