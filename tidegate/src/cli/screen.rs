//! Text on standard output that is refreshed in place on a terminal, and follows line by line elsewhere.

use std::io::{self, IsTerminal, Write};

use crate::observe::status::table::Paint;

/// Columns of a terminal, or what text for a file or a pipe may have: there nothing is left out.
pub fn width() -> usize {
    if !io::stdout().is_terminal() {
        return usize::from(u16::MAX);
    }
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => 80,
    }
}

/// Colours for a terminal that has some and whose user does not mind (https://no-color.org).
pub fn paint() -> Paint {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    match io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb {
        true => Paint::Colours,
        false => Paint::Plain,
    }
}

/// What others say of themselves, for a terminal: without characters that steer one, or that turn the direction of writing.
pub fn plain(text: &str) -> String {
    let steers = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.replace(steers, "\u{fffd}")
}

/// Shows one text after the other.
#[derive(Debug)]
pub struct Screen {
    is_terminal: bool,
    /// Lines of the text that stands there.
    shown: usize,
}

impl Screen {
    /// Standard output.
    pub fn stdout() -> Self {
        Screen { is_terminal: io::stdout().is_terminal(), shown: 0 }
    }

    /// Whether texts replace each other: then a second is a good pace, and a few seconds are else.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Shows `text` in place of the one before.
    ///
    /// # Errors
    /// Nobody reads any more.
    pub fn show(&mut self, text: &str) -> io::Result<()> {
        let bytes = self.replacing(text);
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes.as_bytes())?;
        stdout.flush()
    }

    /// Writes `text` below what stands there.
    ///
    /// # Errors
    /// Nobody reads any more.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        self.shown = 0;
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    fn replacing(&mut self, text: &str) -> String {
        if !self.is_terminal {
            return format!("{text}\n");
        }
        // Up to the first line and clear from there; no wrapping, so that lines can be counted.
        let back = match self.shown {
            0 => String::new(),
            lines => format!("\x1b[{lines}F\x1b[J"),
        };
        self.shown = text.lines().count();
        format!("{back}\x1b[?7l{text}\x1b[?7h")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_refreshed_in_place() {
        let mut screen = Screen { is_terminal: true, shown: 0 };
        assert_eq!(screen.replacing("a\nb\n"), "\x1b[?7la\nb\n\x1b[?7h");
        assert_eq!(screen.replacing("c\n"), "\x1b[2F\x1b[J\x1b[?7lc\n\x1b[?7h");
        let mut pipe = Screen { is_terminal: false, shown: 0 };
        assert_eq!(pipe.replacing("a\n") + &pipe.replacing("b\n"), "a\n\nb\n\n");
    }
}
