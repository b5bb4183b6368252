use std::io::Write;
use std::path::PathBuf;

use tidegate_broker::{NextSend, SubscribeOptions, Subscription};
use tidegate_stream::{ChainInstance, Item, ItemContent, StepError};
use tidegate_types::units::Time;

use super::*;
use crate::broker::Subscriber;
use crate::config::read;
use crate::drive;
use crate::port::Clock;
use crate::script::Scripts;

fn config(text: &str) -> Config {
    let reading = read(text);
    assert_eq!(reading.render("node.toml", text), "");
    reading.config
}

fn operator(steps: &str, more: &str) -> String {
    format!(
        "[[operator]]\nname = \"a\"\nfrom = [\"in/#\"]\nto = \"out/%2\"\ndo = [{steps}]\n{more}\n"
    )
}

/// A file that is there for as long as this.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()));
        std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        Scratch(path)
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What a chain makes of payloads, and its faults.
fn all(config: &Config, payloads: &[&str]) -> (Vec<String>, Vec<StepError>) {
    let mut work = chain(&config.operator[0]).unwrap().start();
    let (mut out, mut faults) = (Vec::new(), Vec::new());
    for payload in payloads {
        out.extend(one(&mut work, payload, &mut faults));
    }
    (out, faults)
}

fn one(work: &mut ChainInstance, payload: &str, faults: &mut Vec<StepError>) -> Vec<String> {
    let content = ItemContent::Payload(payload.as_bytes().to_vec().into());
    let items = work.run(Item { at: Time::ZERO, content }, |fault| faults.push(fault));
    let text = |item: Item| String::from_utf8(item.into_payload().to_vec()).unwrap();
    items.into_iter().map(text).collect()
}

/// A node without outputs that matter, and its operators.
struct Stand {
    running: drive::Running,
    operators: Operators,
    hub: Hub,
}

impl Stand {
    async fn new(config: &Config) -> Stand {
        let options = crate::assemble::node_options(config, 1, 0).unwrap();
        let hub = Hub::default();
        hub.set_scopes(crate::assemble::scopes(config).unwrap());
        let started =
            drive::start_at(hub.clone(), options, Clock::start(), None, Scripts::default());
        let running = started.unwrap().0;
        let intake = running.intake.clone();
        let operators = Operators::start(config, hub.clone(), intake).await.unwrap();
        Stand { running, operators, hub }
    }

    fn subscribe(&self, filter: &str) -> Subscriber {
        let subscriber = self.hub.subscriber(&self.hub.anybody());
        subscriber.seat().outbox().connect(10);
        let (filter, options) = (Subscription::new(filter).unwrap(), SubscribeOptions::default());
        self.hub.subscribe(&subscriber, filter, options, |_| false).unwrap();
        subscriber
    }

    async fn publish(&self, topic: &str, payloads: impl Iterator<Item = String>) {
        let records: Vec<_> = payloads.map(|payload| record(topic, payload, self.now())).collect();
        let mut publisher = self.hub.publisher();
        publisher.publish_all(records.iter().map(|record| (record, 0)));
    }

    fn now(&self) -> Time {
        self.running.intake.now()
    }

    /// Waits until everything that was published is worked on.
    async fn idle(&self) {
        self.operators.engine.idle().await;
    }

    async fn stop(self) {
        self.operators.stop(Duration::from_secs(5)).await;
        self.running.stop(Duration::ZERO).await;
    }
}

fn record(topic: &str, payload: String, now: Time) -> tidegate_types::record::Offered {
    tidegate_types::record::Offered {
        source: SourceId(0),
        token: None,
        key: topic.as_bytes().to_vec().into(),
        properties: tidegate_types::record::Properties::default(),
        payload: payload.into(),
        read_at: now,
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    }
}

fn got(subscriber: &Subscriber) -> Vec<(String, String)> {
    let mut outbox = subscriber.seat().outbox();
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let next = || match outbox.next(Time::ZERO)? {
        NextSend::Publish { delivery, .. } => {
            Some((text(&delivery.message.topic), text(&delivery.message.payload)))
        }
        NextSend::Release(_) => None,
    };
    std::iter::from_fn(next).collect()
}

mod moving;

const LOCAL: &str = "[[stream]]\nto = []\n";

#[tokio::test]
async fn results_go_to_subscribers_in_order_of_the_key_in_every_mode() {
    for mode in ["edf", "fifo", "thread-per-topic"] {
        let steps = "{ parse = \"json\" }, { range = { field = \"x\", max = 899 } }";
        let text = format!("[node]\npool = \"{mode}\"\n{LOCAL}{}", operator(steps, ""));
        let stand = Stand::new(&config(&text)).await;
        let subscriber = stand.subscribe("out/+");
        for key in ["a", "b", "c"] {
            let payloads = (0..1000).map(|x| format!("{{\"x\":{x}}}"));
            stand.publish(&format!("in/{key}"), payloads).await;
        }
        stand.idle().await;
        let got = got(&subscriber);
        assert_eq!(got.len(), 2700, "{mode}");
        for key in ["a", "b", "c"] {
            let own = got.iter().filter(|(topic, _)| *topic == format!("out/{key}"));
            let expected = (0..900).map(|x| format!("{{\"x\":{x}}}"));
            assert!(own.map(|(_, payload)| payload.clone()).eq(expected), "{mode} {key}");
        }
        let meters = stand.hub.meters().read();
        let worked: u64 = meters.iter().map(|meter| meter.figures.worked).sum();
        assert_eq!((meters.len(), worked), (3, 3000));
        stand.stop().await;
    }
}

#[tokio::test]
async fn results_of_one_are_records_of_the_next_and_reach_the_node() {
    let next = "[[operator]]\nname = \"b\"\nfrom = [\"out/#\"]\nto = \"end\"\ndo = [{ parse = \"json\" }]\n";
    let text = format!("{}{next}", operator("{ parse = \"json\" }", ""));
    let stand = Stand::new(&config(&text)).await;
    let subscriber = stand.subscribe("end");
    stand.publish("in/a", (0..10).map(|x| format!("{{\"x\":{x}}}"))).await;
    stand.idle().await;
    assert_eq!(got(&subscriber).len(), 10);
    // Both results of each are offered to the node, which takes them one after another.
    let mut records = 0;
    while records < 20 {
        records = stand.running.status.get().await.unwrap().counts.records;
        tokio::task::yield_now().await;
    }
    assert_eq!(records, 20);
    stand.stop().await;
}

#[tokio::test]
async fn what_fails_is_counted_and_a_full_queue_drops_the_oldest() {
    let steps = "{ spin = \"2ms\" }, { parse = \"json\" }";
    let text = format!("[node]\npool_threads = 1\n{LOCAL}{}", operator(steps, "queue = 5"));
    let stand = Stand::new(&config(&text)).await;
    let subscriber = stand.subscribe("out/a");
    let payloads = (0..50).map(|x| if x == 48 { "wrong".into() } else { format!("{{\"x\":{x}}}") });
    stand.publish("in/a", payloads).await;
    stand.idle().await;
    let figures = stand.hub.meters().read().remove(0).figures;
    let [full, ..] = figures.dropped;
    assert_eq!(figures.records, 50);
    assert_eq!(full + figures.worked, 50);
    assert!(full > 0, "50 do not fit into 5");
    let failed: u64 = figures.failed.iter().sum();
    assert_eq!((failed, figures.failed[0]), (1, 1));
    assert_eq!(got(&subscriber).last().map(|(_, payload)| payload.as_str()), Some("{\"x\":49}"));
    assert!(figures.cpu_mean_and_cv().0 >= 0.002);
    stand.stop().await;
}

#[tokio::test]
async fn operators_change_and_what_stays_remembers() {
    let sum = "{ parse = \"json\" }, { window = { field = \"x\", of = \"sum\", rows = 4 } }";
    let (one, two) = (operator(sum, ""), operator(sum, "").replace("\"a\"", "\"b\""));
    let mut stand = Stand::new(&config(&format!("{LOCAL}{one}"))).await;
    let subscriber = stand.subscribe("out/#");
    let publish = async |stand: &Stand| {
        stand.publish("in/a", (0..2).map(|_| "{\"x\":1}".to_owned())).await;
        stand.idle().await;
    };
    publish(&stand).await;
    stand.operators.change(&config(&format!("{LOCAL}{one}{two}")).operator).await.unwrap();
    publish(&stand).await;
    assert_eq!(got(&subscriber).len(), 1, "the first one goes on with its window");
    stand.operators.change(&[]).await.unwrap();
    publish(&stand).await;
    assert!(stand.hub.meters().read().is_empty() && got(&subscriber).is_empty());
    stand.stop().await;
}

#[test]
fn a_script_changes_drops_and_fails() {
    let text = "function on_record(record)\n  if record.x == 1 then return nil end\n  if record.x == 2 then error('no') end\n  return { y = record.x * 2, ok = true }\nend";
    let script = Scratch::new("double.luau", text);
    let steps = format!("{{ parse = \"json\" }}, {{ luau = {{ file = \"{}\" }} }}", script.path());
    let config = config(&operator(&steps, "order = \"serial\""));
    let (out, faults) = all(&config, &["{\"x\":1}", "{\"x\":2}", "{\"x\":3}"]);
    assert_eq!((out, faults), (vec!["{\"ok\":true,\"y\":6}".into()], vec![StepError::Script]));
    let endless = Scratch::new("endless.luau", "function on_record(r) while true do end end");
    let mut other = config.clone();
    if let Some(crate::config::operators::StepConfig::Luau(luau)) =
        other.operator[0].steps.last_mut()
    {
        luau.file.clone_from(&endless.0);
    }
    assert_eq!(all(&other, &["{\"x\":3}"]).1, [StepError::Script]);
}

#[test]
fn a_process_answers_line_by_line_and_is_started_again() {
    let steps = "{ process = { command = [\"sh\", \"-c\", \"while read line; do [ \\\"$line\\\" = end ] && exit 1; echo \\\"<$line>\\\"; done\"] } }";
    let config = config(&operator(steps, "order = \"serial\""));
    let mut work = chain(&config.operator[0]).unwrap().start();
    let mut faults = Vec::new();
    assert_eq!(one(&mut work, "a b", &mut faults), ["<a b>"]);
    assert_eq!(one(&mut work, "c", &mut faults), ["<c>"]);
    assert!(one(&mut work, "two\nlines", &mut faults).is_empty());
    assert!(one(&mut work, "end", &mut faults).is_empty());
    assert!(one(&mut work, "too soon", &mut faults).is_empty(), "it waits before it starts again");
    assert_eq!(faults, [StepError::Parse, StepError::Process, StepError::Process]);
}

#[test]
fn files_of_steps_are_read() {
    let members = Scratch::new("members.txt", "a\nb\n");
    let table = Scratch::new("table.csv", "id,city\na,Bern\n");
    let steps = format!(
        "{{ parse = \"json\" }}, {{ bloom = {{ field = \"id\", file = \"{}\", false_positives = 1e-6 }} }}, \
         {{ join = {{ field = \"id\", table = \"{}\", column = \"id\" }} }}",
        members.path(),
        table.path()
    );
    let (out, _) = all(&config(&operator(&steps, "")), &["{\"id\":\"a\"}", "{\"id\":\"c\"}"]);
    assert_eq!(out, ["{\"city\":\"Bern\",\"id\":\"a\"}"]);
    let missing = config(&operator(&steps.replace("table.csv", "no.csv"), ""));
    let error = chain(&missing.operator[0]).unwrap_err();
    assert!(error.contains("no.csv"), "{error}");
}
