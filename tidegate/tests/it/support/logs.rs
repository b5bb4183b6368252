//! What the product logs, for tests that wait for its words.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;

/// Everything that is logged on this thread while it lives.
pub(crate) struct Logs {
    text: Arc<Mutex<String>>,
    _guard: DefaultGuard,
}

/// A second collector that hears nothing. While there is only one, `tracing` asks the thread that comes to a
/// line first whether anybody listens to it, and keeps the answer for all threads.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));

impl Logs {
    /// Collects from now on. The test's runtime must have one thread.
    pub(crate) fn collect() -> Logs {
        LazyLock::force(&SECOND);
        let text = Arc::new(Mutex::new(String::new()));
        let writer = text.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || Writer(writer.clone()))
            .finish();
        Logs { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// How often `words` were logged.
    pub(crate) fn count(&self, words: &str) -> usize {
        self.text.lock().unwrap().matches(words).count()
    }
}

struct Writer(Arc<Mutex<String>>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
