//! What a detector finds on frames that arrived, of what it finds on the frames as they were taken.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use tidegate::cli::calibrate::detector::{Detector, open};
use tidegate_frames::calibrate::{Agreement, Detection};
use tidegate_frames::jpeg::JpegHeader;

use super::film::Film;

#[derive(Clone, Debug, Args)]
// It stands beside options of the same name, and groups are named by their types.
#[group(skip)]
pub(crate) struct Options {
    /// A detector (FILE.onnx) that looks at what arrived, between the turns; without one accuracy is only the ladder's
    #[arg(long, value_name = "MODEL")]
    pub(crate) detector: Option<PathBuf>,
    /// Python with the package's `onnx` extra, for the detector (scripts/python.sh installs one)
    #[arg(long, value_name = "PROGRAM", default_value = "target/python/bin/python")]
    pub(crate) python: PathBuf,
}

/// A detector, and what it said.
pub(super) struct Judge {
    detector: Box<dyn Detector>,
    film: Arc<Film>,
    /// What is on the film's frames.
    truths: BTreeMap<usize, Vec<Detection>>,
    /// Of a frame of the film in a shape of so many bytes: cameras send the same again.
    known: BTreeMap<(usize, Bytes), Agreement>,
}

impl Judge {
    /// The one that was asked for, if one was.
    pub(super) fn open(options: &Options, film: Arc<Film>) -> anyhow::Result<Option<Judge>> {
        let Some(model) = &options.detector else { return Ok(None) };
        let mut python = Command::new(&options.python);
        python.env("PYTHONPATH", "python/src");
        let detector = open(model.to_str().context("--detector")?, python, false)?;
        Ok(Some(Judge { detector, film, truths: BTreeMap::new(), known: BTreeMap::new() }))
    }

    pub(super) fn name(&self) -> String {
        self.detector.name()
    }

    /// Boxes on the frames of the film that were looked at, and how many frames.
    pub(super) fn boxes(&self) -> (usize, usize) {
        (self.truths.values().map(Vec::len).sum(), self.truths.len())
    }

    /// How much of what is on this frame of the film is found on its shrunk form. Nothing, where nothing is on it.
    pub(super) fn look(&mut self, number: usize, jpeg: &Bytes) -> anyhow::Result<Agreement> {
        let number = self.film.place(number);
        let key = (number, jpeg.clone());
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let source = self.film.frame(number);
        if !self.truths.contains_key(&number) {
            let truth = self.detector.find("", &source)?;
            self.truths.insert(number, truth);
        }
        let truth = &self.truths[&number];
        let agreement = if truth.is_empty() {
            Agreement::default()
        } else {
            let (whole, part) = (JpegHeader::read(&source)?, JpegHeader::read(jpeg)?);
            let wide = f64::from(whole.width) / f64::from(part.width);
            let high = f64::from(whole.height) / f64::from(part.height);
            let found = self.detector.find("", jpeg)?;
            let found: Vec<Detection> =
                found.into_iter().map(|found| found.scaled(wide, high)).collect();
            Agreement::of(truth, &found)
        };
        self.known.insert(key, agreement);
        Ok(agreement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds one box on what has more than so many bytes, and asks for none twice.
    struct Counting {
        asked: usize,
        least: usize,
    }

    impl Detector for Counting {
        fn name(&self) -> String {
            "counting".into()
        }

        fn hash(&self) -> String {
            String::new()
        }

        fn find(&mut self, _: &str, jpeg: &[u8]) -> anyhow::Result<Vec<Detection>> {
            self.asked += 1;
            anyhow::ensure!(self.asked <= 3, "asked again");
            let head = JpegHeader::read(jpeg)?;
            let place = [0.0, 0.0, f64::from(head.width), f64::from(head.height)];
            Ok(Vec::from_iter((jpeg.len() >= self.least).then_some(Detection { place, label: 0 })))
        }
    }

    #[test]
    fn boxes_are_compared_on_the_scale_of_the_source_and_once() {
        let film = Arc::new(Film::of_size(1));
        let small: Bytes = tidegate::services::cameras::test_picture(96, 54, 60).into();
        let least = tidegate::services::cameras::test_picture(48, 27, 20).len() + 1;
        let detector = Box::new(Counting { asked: 0, least });
        let (truths, known) = (BTreeMap::new(), BTreeMap::new());
        let mut judge = Judge { detector, film, truths, known };
        let whole = Agreement { both: 1, found: 1, truth: 1 };
        assert_eq!(judge.look(0, &small).unwrap(), whole);
        assert_eq!(judge.look(7, &small).unwrap(), whole, "the film has one frame");
        let blurred: Bytes = tidegate::services::cameras::test_picture(48, 27, 20).into();
        let lost = Agreement { both: 0, found: 0, truth: 1 };
        assert_eq!(judge.look(0, &blurred).unwrap(), lost);
    }
}
