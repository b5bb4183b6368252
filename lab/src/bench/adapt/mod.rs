//! BumbleBee's case studies (its section IV) with parts of the product, and its scripts where scripts run.

mod broker;
pub mod browser;
pub mod hostile;
mod http;
pub mod paper;
pub mod traffic;
pub mod yahoo;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::report::{Archive, Findings, figure};
use crate::rig::versions::Program;

/// Lines, figures beside their targets, and promises that were broken.
#[derive(Debug)]
pub(crate) struct Verdict {
    name: &'static str,
    lines: Vec<String>,
    figures: Vec<String>,
    broken: Vec<String>,
}

impl Verdict {
    /// Names of figures begin with `name`.
    pub(crate) fn new(name: &'static str) -> Verdict {
        Verdict { name, lines: Vec::new(), figures: Vec::new(), broken: Vec::new() }
    }

    /// A line for people.
    pub(crate) fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    /// A figure without a target.
    pub(crate) fn figure(&mut self, name: &str, value: f64, unit: &str) {
        self.figures.push(figure(&format!("{}_{name}", self.name), value, unit));
    }

    /// One that must not be larger.
    pub(crate) fn at_most(&mut self, name: &str, value: f64, target: f64, unit: &str) {
        self.judge(name, (value, target), unit, "at most", value <= target);
    }

    /// One that must not be smaller.
    pub(crate) fn at_least(&mut self, name: &str, value: f64, target: f64, unit: &str) {
        self.judge(name, (value, target), unit, "at least", value >= target);
    }

    /// One that must be larger.
    pub(crate) fn above(&mut self, name: &str, value: f64, target: f64, unit: &str) {
        self.judge(name, (value, target), unit, "more than", value > target);
    }

    fn judge(
        &mut self,
        name: &str,
        (value, target): (f64, f64),
        unit: &str,
        how: &str,
        is_kept: bool,
    ) {
        let word = if is_kept { "keeps" } else { "MISSES" };
        let line = format!("{word} {name}: {value:.3} {unit}, {how} {target} {unit}");
        if !is_kept {
            self.broken.push(format!("{}: {line}", self.name));
        }
        self.lines.push(format!("  {line}"));
        self.figure(name, value, unit);
    }

    /// A promise that no number tells.
    pub(crate) fn breaks(&mut self, what: String) {
        self.lines.push(format!("  MISSES {what}"));
        self.broken.push(what);
    }

    /// Lines and figures, and what was broken.
    pub(crate) fn parts(self) -> (Vec<String>, Vec<String>) {
        (self.lines.into_iter().chain(self.figures).collect(), self.broken)
    }

    /// All of it, with the versions of programs.
    pub(crate) fn findings(self, programs: &[Program]) -> Findings {
        let versions: BTreeMap<String, String> =
            Program::all_with_versions(programs).into_iter().collect();
        let (lines, broken) = self.parts();
        Findings { lines, plots: Vec::new(), versions, broken }
    }
}

/// Connects as soon as somebody listens: a node's outputs may be up before that.
async fn connect(to: SocketAddr, within: Duration) -> std::io::Result<TcpStream> {
    let until = Instant::now() + within;
    loop {
        match TcpStream::connect(to).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Where what was computed once is kept: `adapt` in cargo's target folder.
fn target_folder() -> PathBuf {
    let results = Archive::folder_of_target();
    results.parent().map(|target| target.join("adapt")).unwrap_or_else(|| "adapt".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_misses_its_target_breaks_the_run() {
        let mut verdict = Verdict::new("case");
        verdict.at_most("lost", 0.0, 0.0, "frames");
        verdict.at_least("share", 0.7, 0.7, "1");
        assert!(verdict.broken.is_empty());
        verdict.above("more", 1.0, 1.0, "1");
        verdict.at_most("late", f64::NAN, 1.0, "ms");
        let (lines, broken) = verdict.parts();
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(lines.iter().any(|line| line == "FIGURE case_lost 0 frames"), "{lines:?}");
    }
}
