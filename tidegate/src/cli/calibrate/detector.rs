//! Who finds things on pictures: a child in Python, which is asked over its pipes, or a file with answers.
//!
//! To the child goes each image as the length of its bytes (4 bytes, the highest first) and the bytes; each is
//! answered with a line of JSON. Its first line says who it is (`python/src/tidegate/_detect.py`).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use tidegate_frames::calibrate::{BOXES_MAX, Detection};

/// Longest line of a detector: a thousand boxes with long labels.
const LINE_MAX: u64 = 1 << 20;
/// What must be there, if it is not.
const CURE: &str = "pip install 'tidegate[onnx]', and name the Python that has it with --python";

/// Finds things on images.
pub trait Detector {
    /// In words.
    fn name(&self) -> String;
    /// Of what decides what it finds: `sha256:HEX`.
    fn hash(&self) -> String;
    /// What is on this image; `name` is its name among exported ones.
    ///
    /// # Errors
    /// The detector ended, or its answer is none.
    fn find(&mut self, name: &str, jpeg: &[u8]) -> anyhow::Result<Vec<Detection>>;
}

/// The detector of a command line. `python` runs it where it is a model or a callable: `tidegate[onnx]` must be there.
///
/// # Errors
/// There is none of that kind, or it does not start.
pub fn open(spec: &str, python: Command, by_label: bool) -> anyhow::Result<Box<dyn Detector>> {
    let labels = Labels { by_label, ..Labels::default() };
    if let Some(file) = spec.strip_prefix("labels:") {
        return Ok(Box::new(Answers::read(Path::new(file), labels)?));
    }
    let is_callable = spec.strip_prefix("python:").is_some_and(|rest| rest.contains(':'));
    let is_model =
        Path::new(spec).extension().is_some_and(|kind| kind.eq_ignore_ascii_case("onnx"));
    ensure!(
        is_callable || is_model,
        "--detector {spec}: no FILE.onnx, python:MODULE:CALLABLE or labels:FILE"
    );
    if is_model {
        std::fs::metadata(spec).with_context(|| format!("--detector {spec}"))?;
    }
    Ok(Box::new(Program::start(spec, python, labels)?))
}

/// Numbers of labels.
#[derive(Clone, Debug, Default)]
struct Labels {
    numbers: BTreeMap<String, u32>,
    /// Whether they matter.
    by_label: bool,
}

/// A box as a detector says it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Said {
    Place([f64; 4]),
    Labelled(f64, f64, f64, f64, serde_json::Value),
}

impl Labels {
    fn found(&mut self, said: Vec<Said>) -> anyhow::Result<Vec<Detection>> {
        ensure!(said.len() <= BOXES_MAX, "{} boxes on one image, {BOXES_MAX} at most", said.len());
        let found = said.into_iter().map(|one| {
            let (place, label) = match one {
                Said::Place(place) => (place, None),
                Said::Labelled(left, top, width, height, label) => {
                    ([left, top, width, height], Some(label.to_string()))
                }
            };
            let is_sound =
                place.iter().all(|part| part.is_finite()) && place[2] > 0.0 && place[3] > 0.0;
            ensure!(is_sound, "{place:?} is no box: left, top, width above 0 and height above 0");
            let next = self.numbers.len() as u32 + 1;
            let label = label.filter(|_| self.by_label);
            Ok(Detection {
                place,
                label: label.map_or(0, |label| *self.numbers.entry(label).or_insert(next)),
            })
        });
        found.collect()
    }
}

/// What a detector elsewhere found.
struct Answers {
    file: PathBuf,
    hash: String,
    boxes: BTreeMap<String, Vec<Detection>>,
}

/// One line of it.
#[derive(Debug, Deserialize)]
struct Line {
    image: String,
    boxes: Vec<Said>,
}

impl Answers {
    fn read(file: &Path, mut labels: Labels) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("labels {}", file.display()))?;
        let mut boxes = BTreeMap::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let place = || format!("{}:{}", file.display(), at + 1);
            let line: Line = serde_json::from_str(line).with_context(place)?;
            let name = line.image.strip_suffix(".jpg").unwrap_or(&line.image).to_owned();
            boxes.insert(name, labels.found(line.boxes).with_context(place)?);
        }
        Ok(Answers { file: file.to_owned(), hash: hash(text.as_bytes()), boxes })
    }
}

impl Detector for Answers {
    fn name(&self) -> String {
        format!("labels {}", self.file.file_name().unwrap_or_default().display())
    }

    fn hash(&self) -> String {
        self.hash.clone()
    }

    fn find(&mut self, name: &str, _: &[u8]) -> anyhow::Result<Vec<Detection>> {
        let found = self.boxes.get(name).cloned();
        found.with_context(|| {
            let file = self.file.display();
            format!("{file} has no line for image {name:?}: --export FOLDER with the same pictures and options writes all that it needs")
        })
    }
}

/// A child in Python.
struct Program {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    labels: Labels,
    name: String,
    hash: String,
}

/// What the child says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reply {
    name: String,
    sha256: String,
    boxes: Vec<Said>,
    error: String,
}

impl Program {
    fn start(spec: &str, mut command: Command, labels: Labels) -> anyhow::Result<Self> {
        command.args(["-m", "tidegate.detect", spec]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.spawn();
        let mut child = started.with_context(|| {
            format!(
                "--detector {spec} runs in Python, and {} does not start: {CURE}",
                command.get_program().display()
            )
        })?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let mut program = Program {
            to: to.context("no pipe")?,
            from: BufReader::new(from.context("no pipe")?),
            child,
            labels,
            name: String::new(),
            hash: String::new(),
        };
        let hello = program.reply().with_context(|| format!("--detector {spec}"))?;
        (program.name, program.hash) = (hello.name, format!("sha256:{}", hello.sha256));
        Ok(program)
    }

    fn reply(&mut self) -> anyhow::Result<Reply> {
        let mut line = String::new();
        let read = std::io::Read::take(&mut self.from, LINE_MAX).read_line(&mut line);
        if read.context("the detector's answer")? == 0 {
            let status = self.child.wait().context("the detector")?;
            bail!(
                "the detector ended ({status}), and says why above. If Python misses a module: {CURE}"
            );
        }
        let reply = serde_json::from_str::<Reply>(&line);
        let reply = reply.with_context(|| {
            let begin: String = line.chars().take(80).collect();
            format!("the detector says {begin:?}, which is no answer: a callable must print to standard error only")
        })?;
        ensure!(reply.error.is_empty(), "the detector: {}", reply.error);
        Ok(reply)
    }
}

impl Detector for Program {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn hash(&self) -> String {
        self.hash.clone()
    }

    fn find(&mut self, _: &str, jpeg: &[u8]) -> anyhow::Result<Vec<Detection>> {
        let length = u32::try_from(jpeg.len()).context("an image of 4 GiB")?;
        let sent = self.to.write_all(&length.to_be_bytes());
        let sent = sent.and_then(|()| self.to.write_all(jpeg)).and_then(|()| self.to.flush());
        let reply = self.reply();
        // Its own words are better than a broken pipe.
        let reply = reply?;
        sent.context("the detector takes no more images")?;
        self.labels.found(reply.boxes)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It would end with its pipe; one that hangs would not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hash(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_matter_where_they_are_asked_for() {
        let said = || -> Vec<Said> {
            serde_json::from_str(r#"[[1, 2, 3, 4], [1, 2, 3, 4, "car"], [1, 2, 3, 4, 7]]"#).unwrap()
        };
        let numbers = |by_label| -> Vec<u32> {
            let found = Labels { by_label, ..Labels::default() }.found(said()).unwrap();
            found.iter().map(|found| found.label).collect()
        };
        assert_eq!((numbers(false), numbers(true)), (vec![0, 0, 0], vec![0, 1, 2]));
    }

    #[test]
    fn boxes_that_are_none_are_refused() {
        for wrong in ["[[1, 2, 0, 4]]", "[[1, 2, 3, -4]]"] {
            let said = serde_json::from_str(wrong).unwrap();
            let error = Labels::default().found(said).unwrap_err().to_string();
            assert!(error.contains("is no box"), "{error}");
        }
    }

    #[test]
    fn detectors_that_cannot_be_are_named() {
        let error = |spec: &str, python: &str| {
            format!("{:#}", open(spec, Command::new(python), false).err().unwrap())
        };
        let unknown = error("model.pt", "python3");
        assert!(
            unknown.contains("no FILE.onnx, python:MODULE:CALLABLE or labels:FILE"),
            "{unknown}"
        );
        assert!(error("nowhere.onnx", "python3").starts_with("--detector nowhere.onnx: "));
        let absent = error("python:a:b", "/nowhere/python");
        assert!(absent.contains("pip install 'tidegate[onnx]'"), "{absent}");
        let silent = error("python:a:b", "/bin/true");
        assert!(silent.contains("the detector ended (exit status: 0)"), "{silent}");
        let chatty = error("python:a:b", "/bin/echo");
        assert!(chatty.contains("which is no answer"), "{chatty}");
    }
}
