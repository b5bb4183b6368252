//! How far a long command is: a bar on a terminal, a line a step elsewhere, nothing in what is quick.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is over before this shows nothing.
const QUICK: Duration = Duration::from_secs(2);
/// Between two looks of the bar.
const REDRAW: Duration = Duration::from_millis(250);
/// Signs of the bar.
const WIDTH: usize = 24;

/// A bar while it lives. It goes to the error stream: what is printed is for other programs too.
#[derive(Debug)]
pub struct Progress {
    state: Arc<Mutex<State>>,
    stop: mpsc::Sender<()>,
    painter: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    name: String,
    step: String,
    done: f64,
    total: f64,
    began: Instant,
    /// How long the step should take, if it is known: the bar goes on by itself meanwhile.
    expected: Option<Duration>,
    stepped: Instant,
    is_shown: bool,
}

impl Progress {
    /// Of something with so many steps; 0 where nobody knows how many there are.
    pub fn new(name: &str, steps: usize) -> Progress {
        let now = Instant::now();
        let state = Arc::new(Mutex::new(State {
            name: name.into(),
            step: String::new(),
            done: -1.0,
            total: steps as f64,
            began: now,
            expected: None,
            stepped: now,
            is_shown: false,
        }));
        let (stop, stopped) = mpsc::channel();
        let painter = std::io::stderr().is_terminal().then(|| {
            let state = state.clone();
            std::thread::spawn(move || {
                while stopped.recv_timeout(REDRAW) == Err(mpsc::RecvTimeoutError::Timeout) {
                    lock(&state).paint();
                }
                lock(&state).clear();
            })
        });
        Progress { state, stop, painter }
    }

    /// The next step begins, which should take so long, if that is known.
    pub fn step(&self, what: &str, expected: Option<Duration>) {
        let mut state = lock(&self.state);
        state.done += 1.0;
        (state.step, state.expected) = (what.into(), expected);
        state.stepped = Instant::now();
        if self.painter.is_none() && state.total > 0.0 {
            let (place, total) = (state.done + 1.0, state.total);
            eprintln!("{}: {place} of {total}: {what}", state.name);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // The painter may be gone, or there is none.
        let _ = self.stop.send(());
        if let Some(painter) = self.painter.take() {
            let _ = painter.join();
        }
    }
}

impl State {
    fn paint(&mut self) {
        let elapsed = self.began.elapsed();
        if elapsed < QUICK {
            return;
        }
        self.is_shown = true;
        eprint!("\r\x1b[K{}", self.text(elapsed, self.stepped.elapsed()));
        let _ = std::io::stderr().flush();
    }

    fn clear(&mut self) {
        if self.is_shown {
            eprint!("\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }

    fn text(&self, elapsed: Duration, in_step: Duration) -> String {
        let State { name, step, done, total, expected, .. } = self;
        let seconds = elapsed.as_secs();
        if *total <= 0.0 {
            return format!("{name} {step} {seconds} s");
        }
        let of_step = expected.map_or(0.0, |expected| {
            (in_step.as_secs_f64() / expected.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0)
        });
        let part = ((done.max(0.0) + of_step) / total).min(1.0);
        let full = (part * WIDTH as f64) as usize;
        let bar = "#".repeat(full) + &".".repeat(WIDTH - full);
        format!("{name} [{bar}] {:3.0} %  {step}  {seconds} s", part * 100.0)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_goes_on_within_a_step_and_never_past_its_end() {
        let progress = Progress::new("hol", 4);
        progress.step("tidegate", Some(Duration::from_secs(10)));
        progress.step("mosquitto", Some(Duration::from_secs(10)));
        let seconds = Duration::from_secs;
        let state = lock(&progress.state);
        let text = |in_step| state.text(seconds(12), seconds(in_step));
        assert_eq!(text(0), "hol [######..................]  25 %  mosquitto  12 s");
        assert_eq!(text(4), "hol [########................]  35 %  mosquitto  12 s");
        assert_eq!(text(600), "hol [############............]  50 %  mosquitto  12 s");
    }

    #[test]
    fn what_has_no_known_end_shows_its_time() {
        let progress = Progress::new("sim node-hol", 0);
        progress.step("", None);
        let text = lock(&progress.state).text(Duration::from_secs(3), Duration::ZERO);
        assert_eq!(text, "sim node-hol  3 s");
    }
}
