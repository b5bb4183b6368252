//! What becomes of records on which a script fails: twelve that do not fit in its memory, and then a card number.

use tidegate_node::adapt::Otherwise;
use tidegate_node::io::{Control, Input};

use super::*;

/// Hides digits; a payload of 900 KiB does not fit in its memory.
const REDACT: &str = "function on_message(h)
    local body = h:message():bytes(1, -1)
    h:message():setBody((string.gsub(body, '%d', '*')))
end";
/// Only looks, and needs the same memory for it.
const LOOK: &str = "function on_message(h)
    local body = h:message():bytes(1, -1)
    h:state().last = string.reverse(body)
    h:message():moveToFront()
end";

fn redacting(text: &str, on_failure: Option<Otherwise>) -> ScriptSpec {
    let mut spec = ScriptSpec { on_failure, ..spec(text) };
    spec.limits.memory = 1 << 20;
    spec
}

/// Twelve that are too large, and a card number.
fn attacked(spec: ScriptSpec) -> Rehearsal {
    let mut rehearsal = rehearse(spec, Line::default());
    for _ in 0..12 {
        rehearsal.offer(record("t", vec![b'1'; 900 << 10]));
    }
    rehearsal.offer(record("card", "4111 1111"));
    rehearsal.advance(ms(100));
    rehearsal
}

fn went(rehearsal: &Rehearsal) -> Vec<(String, usize, Bytes)> {
    let payloads = rehearsal.went.iter().map(payload);
    let head = |bytes: Bytes| (bytes.len(), bytes.slice(..bytes.len().min(9)));
    let all = keys(rehearsal).into_iter().zip(payloads.map(head));
    all.map(|(key, (length, head))| (key, length, head)).collect()
}

fn redacted() -> (String, usize, Bytes) {
    ("card".into(), 9, Bytes::from_static(b"**** ****"))
}

#[test]
fn a_script_that_hides_drops_what_it_fails_on_and_stays_on() {
    let rehearsal = attacked(redacting(REDACT, None));
    assert_eq!(went(&rehearsal), [redacted()]);
    assert_eq!((dropped(&rehearsal), rehearsal.scripts.all[0].counts().unadapted), (12, 0));
}

#[test]
fn a_script_that_only_orders_is_switched_off_and_everything_goes() {
    let rehearsal = attacked(redacting(LOOK, None));
    assert_eq!((rehearsal.went.len(), dropped(&rehearsal)), (13, 0));
    assert_eq!(rehearsal.scripts.all[0].counts().unadapted, 3, "from the eleventh on");
}

#[test]
fn what_is_held_goes_in_its_order_once_another_script_has_looked_at_it() {
    let mut rehearsal = attacked(redacting(REDACT, Some(Otherwise::Hold)));
    assert_eq!((went(&rehearsal), dropped(&rehearsal)), (vec![redacted()], 0));
    assert_eq!(rehearsal.seat.status(rehearsal.now).held, 12);
    let mut better = redacting(REDACT, Some(Otherwise::Hold));
    better.limits.memory = 64 << 20;
    let better = Script::load(Arc::new(better), ScriptId(0)).unwrap();
    let moment = rehearsal.moment();
    rehearsal.scripts.swap(vec![better], &mut rehearsal.seat, moment).unwrap();
    rehearsal.handle(Input::Control(Control::Reconsider));
    rehearsal.advance(ms(100));
    let went = went(&rehearsal);
    assert_eq!(went.len(), 13);
    let whole = ("t".to_owned(), 900 << 10, Bytes::from_static(b"*********"));
    assert!(went[1..].iter().all(|one| *one == whole), "all of them were looked at");
    assert_eq!((rehearsal.seat.held_bytes(), rehearsal.seat.audit()), (Size::ZERO, 0));
}

#[test]
fn a_verdict_that_cannot_be_done_counts_as_a_failure() {
    // The endpoint does not answer.
    let text = "function on_message(h) h:transform('blur') end";
    let transform = vec![("blur".to_owned(), "http://127.0.0.1:1/".to_owned())];
    let told = |on_failure| ScriptSpec { on_failure, transform: transform.clone(), ..spec(text) };
    for (on_failure, wanted) in [(None, (1, 0)), (Some(Otherwise::Drop), (0, 1))] {
        let mut rehearsal = rehearse(told(on_failure), Line::default());
        rehearsal.offer(record("face", "jpeg"));
        rehearsal.advance(ms(100));
        assert_eq!((rehearsal.went.len(), dropped(&rehearsal)), wanted);
    }
}
