//! What was measured at a broker: a configuration of topics, and the latency of each. A line of JSON is one of them.
//! Source: own.
//! Inputs: text. Outputs: measurements, each checked. O(lines).
//! Deviations: none.
//! Limits: [`TOPICS_MAX`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::Topic;
use super::{Dispatch, ModelError, VERSION};

/// Topics of a configuration at most.
pub(super) const TOPICS_MAX: usize = 1000;

/// A run of one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Of the format.
    pub version: u32,
    /// Names the configuration: runs of the same one have the same name.
    pub configuration: String,
    /// How records found a thread.
    pub scheduler: Dispatch,
    /// Processors of the machine.
    pub processors: u32,
    /// How long it was under load.
    pub seconds: f64,
    /// Its topics.
    pub topics: Vec<MeasuredTopic>,
}

/// A topic of a configuration, and how long its records took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredTopic {
    /// Records/s.
    pub rate: f64,
    /// CPU time of a record, its mean.
    pub work_seconds: f64,
    /// Coefficient of variation of that.
    pub work_cv: f64,
    /// Who got each record.
    pub subscribers: u32,
    /// Bound on the 90th percentile.
    pub bound_seconds: f64,
    /// One record at a time.
    #[serde(default)]
    pub serial: bool,
    /// Median from publishing to delivery.
    pub p50_seconds: f64,
    /// 90th percentile.
    pub p90_seconds: f64,
    /// 99th percentile.
    pub p99_seconds: f64,
    /// Deliveries that counted.
    pub count: u64,
    /// Part of the deliveries that came at all.
    pub arrived: f64,
}

impl MeasuredTopic {
    /// What placement knows of it.
    pub fn topic(&self) -> Topic {
        let time = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
        Topic {
            work: time(self.work_seconds),
            work_cv: self.work_cv,
            rate: self.rate,
            subscribers: self.subscribers,
            bound: time(self.bound_seconds),
            is_serial: self.serial,
        }
    }
}

impl Measurement {
    /// Its topics as placement knows them.
    pub fn topics(&self) -> Vec<Topic> {
        self.topics.iter().map(MeasuredTopic::topic).collect()
    }

    /// Reads a file: a measurement a line.
    ///
    /// # Errors
    /// A line that is none, by its number.
    pub fn read(text: &str) -> Result<Vec<Measurement>, ModelError> {
        let mut all = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |what: String| ModelError::Line { number: number + 1, what };
            let one: Measurement =
                serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            one.check().map_err(wrong)?;
            all.push(one);
        }
        Ok(all)
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("version {}, and this program reads {VERSION}", self.version));
        }
        if !(1..=TOPICS_MAX).contains(&self.topics.len())
            || self.seconds.is_nan()
            || self.seconds <= 0.0
        {
            return Err(format!("a run has 1 to {TOPICS_MAX} topics and takes some time"));
        }
        let is_sound = |topic: &MeasuredTopic| {
            let all = [topic.rate, topic.work_seconds, topic.work_cv, topic.arrived];
            all.iter().all(|value| value.is_finite() && *value >= 0.0)
                && [topic.bound_seconds, topic.p90_seconds].iter().all(|value| *value > 0.0)
        };
        match self.topics.iter().position(|topic| !is_sound(topic)) {
            Some(place) => Err(format!("topic {} has a number that cannot be", place + 1)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn measurement() -> Measurement {
        let topic = MeasuredTopic {
            rate: 40.0,
            work_seconds: 0.01,
            work_cv: 0.1,
            subscribers: 1,
            bound_seconds: 0.05,
            serial: false,
            p50_seconds: 0.011,
            p90_seconds: 0.014,
            p99_seconds: 0.02,
            count: 100,
            arrived: 1.0,
        };
        Measurement {
            version: VERSION,
            configuration: "1".into(),
            scheduler: Dispatch::Edf,
            processors: 2,
            seconds: 3.0,
            topics: vec![topic],
        }
    }

    #[test]
    fn a_line_is_a_measurement_or_says_what_is_wrong() {
        let line = serde_json::to_string(&measurement()).unwrap();
        let all = Measurement::read(&format!("{line}\n\n{line}\n")).unwrap();
        assert_eq!(all, vec![measurement(); 2]);
        let wrong = |from: &str, to: &str| {
            let text = format!("{line}\n{}", line.replace(from, to));
            Measurement::read(&text).unwrap_err().to_string()
        };
        let newer = wrong("\"version\":1", "\"version\":2");
        assert_eq!(newer, "line 2: version 2, and this program reads 1");
        assert!(
            wrong("\"p90_seconds\":0.014", "\"p90_seconds\":0").contains("topic 1 has a number")
        );
        assert!(wrong("\"rate\"", "\"rat\"").contains("unknown field"));
    }
}
