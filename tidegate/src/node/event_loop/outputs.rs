//! The loop's end of each output.

use std::sync::Arc;

use tidegate_node::io::OutputId;

use crate::node::contract::{Feedback, Orders, OutputPort};

/// See the file's header.
#[derive(Debug)]
pub(super) struct OutputEnd {
    pub(super) orders: Orders,
    /// How often each lane went down: an order given before the node knew is void.
    pub(super) downs: Vec<u64>,
}

/// Begins an output: the next one, or one that has ended. What its lanes said before that came before this, and counts.
pub(super) fn begin(
    all: &mut Vec<OutputEnd>,
    (id, name): (OutputId, Arc<str>),
    lanes: u8,
    feedback: Feedback,
) -> OutputPort {
    let (orders, port) = OutputPort::new(id, name, lanes, feedback);
    let end = OutputEnd { orders, downs: vec![0; usize::from(lanes)] };
    match all.get_mut(usize::from(id.0)) {
        Some(known) => *known = end,
        None => all.push(end),
    }
    port
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use tidegate_node::io::PathState;
    use tidegate_types::record::{Offered, Properties};
    use tidegate_types::units::Size;

    use super::*;
    use crate::assembly::{all_outputs, node_options, rules};
    use crate::config::{Config, read};
    use crate::node::contract::{Clock, Order, Source};
    use crate::node::event_loop;
    use crate::script::Scripts;

    fn config(to: &str) -> Config {
        let outputs = ["near", "far"]
            .map(|name| format!("[[output]]\nname = \"{name}\"\nsink = {{ discard = true }}\n"));
        read(&format!("[[stream]]\nto = [\"{to}\"]\n{}", outputs.concat())).config
    }

    fn record(source: &Source) -> Offered {
        Offered {
            source: source.id(),
            token: None,
            key: Bytes::from_static(b"t"),
            properties: Properties::default(),
            payload: Bytes::from_static(b"x"),
            read_at: source.now(),
            source_unix_ns: None,
            ttl: None,
            foreign: None,
            packet: None,
        }
    }

    async fn take(port: &mut OutputPort, confirms: bool) {
        while let Some(order) = port.orders.recv().await {
            let Order::Transmit(cut) = order else { continue };
            let _ = port.feedback.sent(cut.id, Size(cut.end - cut.start)).await;
            if !confirms {
                return;
            }
            let _ = port.feedback.confirmed(vec![cut.id]).await;
        }
    }

    /// An output goes while it has unconfirmed records and others come: `load` of them before its end is known.
    async fn goes(load: usize) {
        let options = node_options(&config("near"), 1, 1).unwrap();
        let scripts = Scripts::load(&[]).unwrap();
        let (running, ports) = event_loop::start(options, Clock::start(), None, scripts).unwrap();
        let [mut near, mut far] = <[OutputPort; 2]>::try_from(ports).unwrap();
        for port in [&near, &far] {
            for lane in 0..port.lanes {
                port.feedback.path_state(lane, PathState::Up).await.unwrap();
            }
        }
        let source = running.intake.open("test".into()).await.unwrap();
        source.offer(vec![record(&source), record(&source)]).await.unwrap();
        take(&mut near, false).await;
        let mut config = config("far");
        let new = rules(&config).unwrap();
        config.output[0].is_gone = true;
        let gone = all_outputs(&config.output);
        let refused =
            running.try_on(Vec::new(), rules(&self::config("near")).unwrap(), gone.clone());
        assert!(refused.await.is_err(), "rules that lead to what is gone");
        let adaptation = running.try_on(Vec::new(), new, gone.clone()).await.unwrap();
        // The loop finds all of this together.
        for _ in 0..load {
            source.offer(vec![record(&source)]).await.unwrap();
        }
        running.output_is_down(OutputId(0)).await;
        running.adapt(adaptation).await;
        running.set_outputs(gone.0, gone.1).await;
        tokio::spawn(async move { take(&mut far, true).await });
        let end = running.stop(Duration::from_secs(60)).await;
        assert_eq!((end.counts.confirmed, end.counts.dropped_all()), (load as u64 + 2, 0));
    }

    #[tokio::test]
    async fn what_is_under_way_by_an_output_that_goes_goes_by_the_new_rules() {
        for load in [0, 1, 13, 14, 15, 16, 17, 30] {
            goes(load).await;
        }
    }
}
