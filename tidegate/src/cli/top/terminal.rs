//! The terminal while `top` has it: its whole screen, and keys without a line's end. Given back when dropped.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::net::unix::pipe::Receiver;

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// A letter, a digit or a sign.
    Char(char),
    /// One view on.
    Next,
    /// One view back.
    Back,
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// Away with what lies above.
    Escape,
}

/// Another screen than the one before, without a cursor and without wrapping.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
/// All that back.
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// What a terminal has that tells nothing of its size.
const SIZE: (usize, usize) = (80, 24);

/// A terminal in use.
#[derive(Debug)]
pub(super) struct Terminal {
    /// Opened anew: that it does not block is nobody else's business.
    tty: File,
    /// The same, for waiting. No pipe, but read like one: by bytes, when there are some.
    keys: Receiver,
    before: Termios,
}

impl Terminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn open() -> io::Result<Terminal> {
        let nonblocking = libc::O_NONBLOCK | libc::O_NOCTTY;
        let tty =
            OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open("/dev/tty")?;
        let before = tcgetattr(&tty)?;
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Nobody could see what a shell says on a screen that is not given back.
        keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
        tcsetattr(&tty, OptionalActions::Flush, &keys)?;
        let pressed = Receiver::from_file_unchecked(tty.try_clone()?)?;
        let terminal = Terminal { tty, keys: pressed, before };
        write(ENTER)?;
        Ok(terminal)
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.tty) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => SIZE,
        }
    }

    /// Shows these lines, and nothing else.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn show(&self, lines: &[String]) -> io::Result<()> {
        write(&replacing(lines))
    }

    /// Keys that were pressed. Cancel-safe.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) async fn keys(&self) -> io::Result<Vec<Key>> {
        loop {
            self.keys.readable().await?;
            let mut bytes = [0; 64];
            match self.keys.try_read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::BrokenPipe.into()),
                Ok(count) => return Ok(understood(&bytes[..count])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = write(LEAVE);
        let _ = tcsetattr(&self.tty, OptionalActions::Flush, &self.before);
    }
}

/// Lines in place of those that stand there. Each is cleared before it is written: behind a line that fills its row the
/// cursor stays on the last character, and clearing would take that away.
fn replacing(lines: &[String]) -> String {
    let text: Vec<String> = lines.iter().map(|line| format!("\x1b[2K{line}")).collect();
    format!("\x1b[H{}", text.join("\r\n"))
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// The keys in what a terminal sent; sequences that mean nothing here are left out.
fn understood(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((&first, rest)) = bytes.split_first() {
        bytes = rest;
        match (first, rest) {
            (0x1b, [b'[' | b'O', sequence @ ..]) => {
                let end = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte));
                let Some(end) = end else { break };
                bytes = &sequence[end + 1..];
                keys.extend(match sequence[end] {
                    b'A' => Some(Key::Up),
                    b'B' => Some(Key::Down),
                    b'C' => Some(Key::Next),
                    b'D' | b'Z' => Some(Key::Back),
                    _ => None,
                });
            }
            (0x1b, _) => keys.push(Key::Escape),
            (b'\t', _) => keys.push(Key::Next),
            (0x20..=0x7e, _) => keys.push(Key::Char(first.into())),
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_cleared_behind_a_line() {
        let lines = ["full".to_owned(), String::new()];
        assert_eq!(replacing(&lines), "\x1b[H\x1b[2Kfull\r\n\x1b[2K");
    }

    #[test]
    fn keys_and_sequences_are_understood() {
        assert_eq!(understood(b"q?"), [Key::Char('q'), Key::Char('?')]);
        assert_eq!(
            understood(b"\t\x1b[Z\x1b[A\x1bOB\x1b[C\x1b[D"),
            [Key::Next, Key::Back, Key::Up, Key::Down, Key::Next, Key::Back]
        );
        assert_eq!(understood(b"\x1b"), [Key::Escape]);
        // Delete, a click, half a sequence, and bytes of UTF-8 mean nothing.
        assert_eq!(understood(b"\x1b[3~s\x1b[<0;1;1M\xc3\xa4\x1b[1"), [Key::Char('s')]);
    }
}
