//! The demo's far end: an output that takes every record and measures how old it is.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_node::io::PathState;
use tidegate_node::status::StageTimes;
use tidegate_types::class::Classes;
use tidegate_types::units::Size;

use super::load::unix_ns;
use crate::cli::tables::EndToEnd;
use crate::node::contract::{Order, OutputPort, Stopping, Transmit};

/// What was measured: source time to arrival at the far end, by class. Clones share it.
#[derive(Clone, Debug)]
pub struct Meter(Arc<Mutex<Vec<ClassTimes>>>);

type ClassTimes = (Arc<str>, StageTimes);

impl Meter {
    /// A meter for records of these classes.
    pub fn new(classes: &Classes) -> Self {
        let times = classes.iter().map(|(_, spec)| (spec.name.clone(), StageTimes::default()));
        Meter(Arc::new(Mutex::new(times.collect())))
    }

    /// What was measured so far.
    pub fn read(&self) -> Vec<EndToEnd> {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |(class, times): &ClassTimes| EndToEnd {
            class: class.to_string(),
            times: times.into(),
        };
        times.iter().map(read).collect()
    }

    /// Takes records as an output of a node until the node stops it.
    ///
    /// # Errors
    /// The node is gone.
    pub async fn run(self, mut port: OutputPort) -> Result<(), Stopping> {
        for lane in 0..port.lanes {
            port.feedback.path_state(lane, PathState::Up).await?;
        }
        while let Some(order) = port.orders.recv().await {
            match order {
                Order::Transmit(cut) => self.take(&port, &cut).await?,
                Order::Cancel(_) => {}
                Order::Stop => break,
            }
        }
        Ok(())
    }

    async fn take(&self, port: &OutputPort, cut: &Transmit) -> Result<(), Stopping> {
        port.feedback.sent(cut.id, Size(cut.end - cut.start)).await?;
        if cut.end < cut.size {
            return Ok(());
        }
        if let Some(made) = cut.record.source_unix_ns {
            let age = Duration::from_nanos(unix_ns().saturating_sub(made));
            let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, times)) = times.get_mut(cut.class.index()) {
                times.record(age);
            }
        }
        port.feedback.confirmed(vec![cut.id]).await
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tidegate_types::record::{Offered, Properties, Token};

    use super::*;
    use crate::assembly::node_options;
    use crate::config::read;
    use crate::node::contract::{Clock, Notice};
    use crate::node::event_loop;
    use crate::script::Scripts;

    #[tokio::test]
    async fn records_are_measured_and_confirmed() {
        let text = "[[stream]]\ntopics = [\"alarms\"]\nclass = \"ls\"\naccept = \"confirmed\"\n\
                    [[output]]\nsink = { discard = true }";
        let options = node_options(&read(text).config, 1, 1).unwrap();
        let meter = Meter::new(&options.classes);
        let (running, mut ports) =
            event_loop::start(options, Clock::start(), None, Scripts::default()).unwrap();
        let measuring = tokio::spawn(meter.clone().run(ports.remove(0)));
        let mut source = running.intake.open("test".into()).await.unwrap();
        let record = Offered {
            source: source.id(),
            token: Some(Token(1)),
            key: Bytes::from_static(b"alarms"),
            properties: Properties::default(),
            payload: Bytes::from(vec![0; 30_000]),
            read_at: source.now(),
            source_unix_ns: Some(unix_ns() - 1_000_000_000),
            ttl: None,
            foreign: None,
            packet: None,
        };
        source.offer(vec![record]).await.unwrap();
        assert_eq!(source.notice().await, Some(Notice::Accept(Token(1), Ok(()))));
        let read = meter.read();
        assert_eq!((read[0].class.as_str(), read[0].times.count), ("ls", 1));
        assert!(read[0].times.p50_seconds >= 0.99);
        assert_eq!(running.stop(Duration::from_secs(60)).await.counts.confirmed, 1);
        measuring.await.unwrap().unwrap();
    }
}
