//! What operators remember, from one node to another.

use tidegate_cluster::handover::UnitId;
use tidegate_stream::memory::bundle::{pack, unpack};
use tokio::sync::mpsc;

use super::*;
use crate::group::{Busy, Gate};
use crate::operators::memory::{Restored, forget, restore, save};

const UNIT: UnitId = UnitId(0);

fn sum(rows: u32, more: &str) -> Config {
    let window = format!("{{ window = {{ field = \"x\", of = \"sum\", rows = {rows} }} }}");
    let steps = format!("{{ parse = \"json\" }}, {window}");
    config(&format!("{LOCAL}{}", operator(&steps, more)))
}

impl Stand {
    /// Records of a unit's topic, or of no unit's; waits until they are worked on.
    async fn take(&self, unit: Option<UnitId>, topic: &str, payloads: &[&str]) {
        let gate = unit.map(|unit| Gate::new(unit, mpsc::unbounded_channel().0));
        for payload in payloads {
            let record = record(topic, (*payload).to_owned(), self.now());
            let message = self.hub.publisher().message(&record, 0);
            for operator in &self.operators.all {
                let meter = self.hub.meters().of(operator.name(), &message.topic);
                operator.take(&message, &meter, gate.as_ref().map(Busy::new));
            }
        }
        self.idle().await;
    }

    fn saved(&self, unit: UnitId) -> (Option<Bytes>, u64, u64) {
        let saved = save(&self.operators.all, unit);
        (saved.bytes, saved.sent, saved.left)
    }

    fn restored(&self, bytes: &Bytes) -> Restored {
        restore(&self.operators.all, UNIT, bytes, |topic| topic.starts_with(b"in/"))
    }
}

fn whole(taken: u64) -> Restored {
    Restored { taken, ..Restored::default() }
}

fn payloads(subscriber: &Subscriber) -> Vec<String> {
    got(subscriber).into_iter().map(|(_, payload)| payload).collect()
}

fn refused(restored: &Restored) -> String {
    let all = restored.refused.iter();
    all.map(|((name, why), count)| format!("{name}: {why}: {count}")).collect()
}

#[tokio::test]
async fn a_window_goes_on_elsewhere_and_is_kept_until_it_is_forgotten() {
    let (one, two) = (Stand::new(&sum(3, "")).await, Stand::new(&sum(3, "")).await);
    let (here, there) = (one.subscribe("out/#"), two.subscribe("out/#"));
    let rows = ["{\"x\":1}", "{\"x\":2}"];
    one.take(Some(UNIT), "in/a", &rows).await;
    one.take(Some(UNIT), "in/b", &rows[..1]).await;
    one.take(Some(UnitId(1)), "in/c", &rows[..1]).await;
    one.take(None, "in/d", &rows[..1]).await;
    let (bytes, sent, left) = one.saved(UNIT);
    assert_eq!((sent, left), (2, 0), "only what is of the unit");
    let bytes = bytes.unwrap();
    assert_eq!(one.saved(UNIT).1, 2, "it is here still");
    two.take(Some(UNIT), "in/a", &rows[..1]).await;
    assert_eq!(two.restored(&bytes), whole(2), "in the place of what was here");
    // Nobody has read it yet: it moves on all the same.
    let (bytes, sent, _) = two.saved(UNIT);
    assert_eq!(sent, 2);
    assert_eq!(two.restored(&bytes.unwrap()), whole(2));
    for (topic, sum) in [("in/a", 6), ("in/b", 4)] {
        two.take(Some(UNIT), topic, if topic == "in/a" { &["{\"x\":3}"] } else { &rows }).await;
        assert_eq!(payloads(&there), [format!("{{\"x\":{sum}}}")]);
    }
    forget(&one.operators.all, UNIT);
    assert_eq!(one.saved(UNIT), (None, 0, 0));
    one.take(Some(UNIT), "in/a", &["{\"x\":3}"]).await;
    assert!(payloads(&here).is_empty(), "the window begins anew");
    for topic in ["in/c", "in/d"] {
        let unit = (topic == "in/c").then_some(UnitId(1));
        one.take(unit, topic, &rows).await;
        assert_eq!(payloads(&here), ["{\"x\":4}"], "what is of others stays");
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_begins_anew() {
    let one = Stand::new(&sum(3, "")).await;
    one.take(Some(UNIT), "in/a", &["{\"x\":1}"]).await;
    let bytes = one.saved(UNIT).0.unwrap();
    let other = Stand::new(&sum(4, "")).await;
    let text = "a: the operator of this name is another one here: 1";
    assert_eq!(refused(&other.restored(&bytes)), text);
    let mut kept = unpack(&bytes).unwrap();
    kept[0].operator = "b".into();
    let text = "b: there is no such operator here: 1";
    assert_eq!(refused(&one.restored(&pack(&kept))), text);
    (kept[0].operator, kept[0].key) = ("a".into(), Bytes::from_static(b"elsewhere"));
    assert_eq!(refused(&one.restored(&pack(&kept))), "a: it is of other topics: 1");
    let text = ": it has the form of version 9, and this node knows 1: 1";
    assert_eq!(refused(&one.restored(&Bytes::from_static(&[9]))), text);
    let subscriber = one.subscribe("out/#");
    for damage in [0, 9, 20] {
        let mut kept = unpack(&bytes).unwrap();
        let mut memory = kept[0].memory.to_vec();
        memory[damage] ^= 0x80;
        kept[0].memory = memory.into();
        assert_eq!(one.restored(&pack(&kept)), whole(1));
        one.take(Some(UNIT), "in/a", &["{\"x\":5}"; 3]).await;
        assert_eq!(payloads(&subscriber), ["{\"x\":15}"], "byte {damage}");
    }
    let thread = sum(3, "[node]\npool = \"thread-per-topic\"");
    let thread = Stand::new(&thread).await;
    thread.take(Some(UNIT), "in/a", &["{\"x\":1}"]).await;
    assert_eq!(thread.saved(UNIT), (None, 0, 0));
    assert_eq!(thread.restored(&bytes).taken, 0);
    for stand in [one, other, thread] {
        stand.stop().await;
    }
}

#[tokio::test]
async fn a_key_of_several_units_stays() {
    let one = Stand::new(&sum(9, "order = \"serial\"")).await;
    one.take(Some(UNIT), "in/a", &["{\"x\":1}"]).await;
    let bytes = one.saved(UNIT).0.unwrap();
    one.take(Some(UnitId(1)), "in/b", &["{\"x\":1}"]).await;
    assert_eq!(one.saved(UNIT), (None, 0, 1));
    let text = "a: the key remembers records of other topics here: 1";
    assert_eq!(refused(&one.restored(&bytes)), text);
    forget(&one.operators.all, UNIT);
    assert_eq!(one.saved(UnitId(1)).1, 1, "it is all that is left");
    one.stop().await;
}

#[tokio::test]
async fn where_there_is_no_room_the_latest_keys_move() {
    let steps =
        "{ parse = \"json\" }, { window = { field = \"x\", of = \"distinct\", rows = 2000 } }";
    let one = Stand::new(&config(&format!("{LOCAL}{}", operator(steps, "")))).await;
    for topic in ["in/a", "in/b", "in/c", "in/d", "in/e"] {
        let texts: Vec<String> =
            (0..1000).map(|number| format!("{{\"x\":\"{number:01024}n\"}}")).collect();
        one.take(Some(UNIT), topic, &texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    let (bytes, sent, left) = one.saved(UNIT);
    assert_eq!((sent, left), (4, 1));
    let kept = unpack(&bytes.unwrap()).unwrap();
    assert_eq!(
        kept.iter().map(|kept| &kept.key[..]).collect::<Vec<_>>(),
        [b"in/b", b"in/c", b"in/d", b"in/e"]
    );
    one.stop().await;
}

#[tokio::test]
async fn a_script_saves_and_loads_what_it_wants() {
    let count = "local n = 0\nfunction on_record(record)\n  n += 1\n  return tostring(n)\nend\n";
    let load = "function load(text) n = tonumber(text) end\n";
    let of = |name, text: String| {
        let script = Scratch::new(name, &text);
        let steps = format!("{{ luau = {{ file = \"{}\" }} }}", script.path());
        (config(&format!("{LOCAL}{}", operator(&steps, "order = \"serial\""))), script)
    };
    let save = "function save() return tostring(n) end\n";
    let (config, _script) = of("counts.luau", format!("{count}{save}{load}"));
    let (one, two) = (Stand::new(&config).await, Stand::new(&config).await);
    one.take(Some(UNIT), "in/a", &["x", "y"]).await;
    let (bytes, sent, left) = one.saved(UNIT);
    assert_eq!((sent, left), (1, 0));
    assert_eq!(two.restored(&bytes.unwrap()), whole(1));
    let subscriber = two.subscribe("out/#");
    two.take(Some(UNIT), "in/a", &["z"]).await;
    assert_eq!(payloads(&subscriber), ["3"]);
    let wrong = "function save() error('no') end\n";
    for (name, wrong, left) in [("fails.luau", wrong, 1), ("forgets.luau", "", 0)] {
        let load = if wrong.is_empty() { "" } else { load };
        let (config, _script) = of(name, format!("{count}{wrong}{load}"));
        let stand = Stand::new(&config).await;
        stand.take(Some(UNIT), "in/a", &["x"]).await;
        assert_eq!(stand.saved(UNIT), (None, 0, left), "{name}");
        stand.stop().await;
    }
    let (config, _script) = of("half.luau", format!("{count}{save}"));
    assert!(chain(&config.operator[0]).unwrap_err().contains("give both"));
    one.stop().await;
    two.stop().await;
}

#[test]
fn where_files_are_is_no_part_of_what_an_operator_is() {
    let of = |file: &str, key: &str| {
        let steps = format!("{{ luau = {{ file = \"{file}\" }} }}");
        config(&operator(&steps, &format!("order = \"serial\"\n{key}"))).operator[0].definition()
    };
    assert_eq!(of("/one/x.luau", ""), of("/other/x.luau", ""));
    assert_eq!(of("x.luau", ""), of("x.luau", "queue = 7"));
    assert_ne!(of("x.luau", ""), of("y.luau", ""));
}
