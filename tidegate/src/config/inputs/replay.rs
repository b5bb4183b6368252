//! `replay` of an `[[input]]`.

use anyhow::Context;

use crate::config::{ReplayConfig, ReplayFormat, SPEED};
use crate::input::kind::{Driver, InputKind, Surroundings};
use crate::input::replay::{Format, KeyTemplate, Pace, Payload, ReplayFile, ReplayOptions, Rules};
use crate::keys::findings::Findings;
use crate::keys::places::Place;

impl InputKind for ReplayConfig {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        match &self.file {
            None => findings.error(place.clone(), "no file: give file = \"readings.csv\""),
            Some(file) if self.format.is_none() && self.guessed_format().is_none() => {
                let text = format!(
                    "the ending of {:?} does not tell what is in it: give format = \"csv\", \"jsonl\" or \
                     \"senml\"",
                    file.display().to_string()
                );
                findings.error(place.to("file"), text);
            }
            Some(_) => {}
        }
        if let Some(topic) = &self.topic
            && !tidegate_types::topic::is_topic(topic)
        {
            let text = format!("{topic:?} is no topic: it has no + or # and is not empty");
            findings.error(place.to("topic"), text);
        }
        if self.speed.is_some() && self.records_per_second.is_some() {
            let text = "speed is given too: keep one of the two";
            findings.error(place.to("records_per_second"), text);
        }
    }

    fn build(&self, _: &Surroundings) -> anyhow::Result<Box<dyn Driver>> {
        let path = self.file.clone().context("replay.file is missing")?;
        let format = match self.format.or(self.guessed_format()) {
            Some(ReplayFormat::Csv) => Format::Csv,
            Some(ReplayFormat::Jsonl) => Format::JsonLines,
            Some(ReplayFormat::Senml) => Format::SenMl,
            None => Format::Auto,
        };
        let name = path.file_stem().map_or_else(|| "replay".into(), |stem| stem.to_string_lossy());
        let key = KeyTemplate::new(self.topic.as_deref().unwrap_or(&name))?;
        let rules = Rules { format, key, time: self.time.clone(), payload: Payload::default() };
        let pace = match self.records_per_second {
            Some(rate) => Pace::Even { rate },
            None => Pace::Recorded { speed: self.speed.unwrap_or(SPEED) },
        };
        let files = vec![ReplayFile { path: path.clone(), rules }];
        let options = ReplayOptions::new(&name, files);
        Ok(Box::new(ReplayOptions { pace, repeat: self.repeat, ..options }))
    }
}
