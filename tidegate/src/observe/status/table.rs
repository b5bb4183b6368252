//! Tables for a terminal that fit its width, and quantities in words.

use std::fmt::Write;

/// What a cell says about itself, where a terminal has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// Nothing.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Worth a look.
    Warn,
    /// Not as it should be.
    Bad,
    /// Beside the point: a head, or what is not known any more.
    Soft,
}

/// Whether text has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// It has none.
    Plain,
    /// By the codes that every terminal of today knows (ECMA-48).
    Colours,
}

impl Paint {
    /// `text` in the colour of `mood`.
    pub fn paint(self, text: &str, mood: Mood) -> String {
        let code = match (self, mood) {
            (Paint::Plain, _) | (_, Mood::Plain) => return text.to_owned(),
            (_, Mood::Good) => "32",
            (_, Mood::Warn) => "33",
            (_, Mood::Bad) => "31",
            (_, Mood::Soft) => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// In which mood.
    pub mood: Mood,
}

impl Cell {
    /// A cell in a mood.
    pub fn new(text: impl Into<String>, mood: Mood) -> Self {
        Cell { text: text.into(), mood }
    }

    /// A count that should be 0.
    pub fn count(count: u64, otherwise: Mood) -> Self {
        Cell::new(count.to_string(), if count > 0 { otherwise } else { Mood::Plain })
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::new(text, Mood::Plain)
    }
}

/// A column and what it shows.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub head: &'static str,
    /// 0 stays; of the others the largest goes first where there is too little room.
    pub rank: u8,
    /// Whether it is text, at the left; numbers stand at the right.
    pub is_text: bool,
}

impl Column {
    /// A column of numbers.
    pub const fn number(head: &'static str, rank: u8) -> Self {
        Column { head, rank, is_text: false }
    }

    /// A column of text.
    pub const fn text(head: &'static str, rank: u8) -> Self {
        Column { head, rank, is_text: true }
    }
}

/// Rows below their columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// From the left.
    pub columns: Vec<Column>,
    /// As many cells as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// Between two columns.
const GAP: usize = 2;

impl Table {
    /// The table in lines of at most `width` characters: columns that do not fit are left out, and a line that is too
    /// long all the same is cut.
    pub fn render(&self, width: usize, paint: Paint) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|place| self.width(place)).collect();
        let shown = self.fitting(&widths, width);
        let head: Vec<Cell> =
            self.columns.iter().map(|column| Cell::new(column.head, Mood::Soft)).collect();
        let mut text = String::new();
        for row in std::iter::once(&head).chain(&self.rows) {
            text += &self.line(row, &shown, &widths, width, paint);
            text.push('\n');
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].text.chars().count());
        cells.max().unwrap_or_default().max(self.columns[column].head.chars().count())
    }

    /// The places of the columns that fit together.
    fn fitting(&self, widths: &[usize], width: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        loop {
            let all: usize = shown.iter().map(|&place| widths[place] + GAP).sum();
            let last = shown.iter().rposition(|&place| self.columns[place].rank > 0);
            let (true, Some(_)) = (all > width + GAP, last) else { return shown };
            let first_to_go = |&&place: &&usize| self.columns[place].rank;
            let gone = shown.iter().max_by_key(first_to_go).copied();
            shown.retain(|&place| Some(place) != gone);
        }
    }

    fn line(
        &self,
        row: &[Cell],
        shown: &[usize],
        widths: &[usize],
        width: usize,
        paint: Paint,
    ) -> String {
        let (mut line, mut used) = (String::new(), 0);
        for (at, &place) in shown.iter().enumerate() {
            let gap = if at > 0 { GAP.min(width - used) } else { 0 };
            let room = width - used - gap;
            let text: String = row[place].text.chars().take(room).collect();
            let pad = widths[place].min(room) - text.chars().count();
            let is_last = at + 1 == shown.len();
            let (before, after) = match self.columns[place].is_text {
                true if is_last => (0, 0),
                true => (0, pad),
                false => (pad, 0),
            };
            let text = paint.paint(&text, row[place].mood);
            let _ = write!(line, "{:gap$}{:before$}{text}{:after$}", "", "", "");
            used += gap + widths[place].min(room);
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Columns side by side: the first one left, numbers right, the last one as it is.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                last if last == columns - 1 => write!(line, "  {cell}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// A rate in network notation.
pub fn rate(bytes_per_second: f64) -> String {
    tidegate_types::units::Rate::new(bytes_per_second.max(0.0)).to_string()
}

/// A span of time with three significant digits.
pub fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.01 => format!("{:.0} ms", s * 1e3),
        s if s >= 0.001 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}

/// A size in binary units.
pub fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        b if b >= 1_073_741_824.0 => format!("{:.1} GiB", b / 1_073_741_824.0),
        b if b >= 1_048_576.0 => format!("{:.1} MiB", b / 1_048_576.0),
        b if b >= 1024.0 => format!("{:.0} KiB", b / 1024.0),
        b => format!("{b:.0} B"),
    }
}

/// Hours, minutes and seconds.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = vec![
            Column::text("class", 0),
            Column::number("in", 2),
            Column::number("late", 1),
            Column::text("dropped", 0),
        ];
        let row = |name: &str, late: u64| {
            vec![name.into(), "2.00 Mbit/s".into(), Cell::count(late, Mood::Warn), "full 12".into()]
        };
        Table { columns, rows: vec![row("ls", 0), row("bulk", 312)] }
    }

    #[test]
    fn columns_stand_below_each_other_and_those_that_do_not_fit_are_left_out() {
        assert_eq!(
            table().render(80, Paint::Plain),
            "class           in  late  dropped\n\
             ls     2.00 Mbit/s     0  full 12\n\
             bulk   2.00 Mbit/s   312  full 12\n"
        );
        assert_eq!(
            table().render(32, Paint::Plain),
            "class  late  dropped\nls        0  full 12\nbulk    312  full 12\n"
        );
        assert_eq!(
            table().render(19, Paint::Plain),
            "class  dropped\nls     full 12\nbulk   full 12\n"
        );
        assert_eq!(table().render(10, Paint::Plain), "class  dro\nls     ful\nbulk   ful\n");
        assert_eq!(table().render(0, Paint::Plain), "\n\n\n");
    }

    #[test]
    fn colours_change_no_width() {
        let painted = table().render(80, Paint::Colours);
        assert!(painted.contains("\x1b[33m312\x1b[0m"), "{painted:?}");
        let plain = ["\x1b[33m", "\x1b[2m", "\x1b[0m"]
            .iter()
            .fold(painted, |text, code| text.replace(code, ""));
        let trimmed: Vec<&str> = plain.lines().map(str::trim_end).collect();
        let expected = table().render(80, Paint::Plain);
        assert_eq!(trimmed, expected.lines().collect::<Vec<_>>());
    }

    #[test]
    fn quantities_have_units() {
        assert_eq!(
            ["0 us", "1.5 ms", "50 ms", "1.25 s", "600 s"],
            [0.0, 0.0015, 0.05, 1.25, 600.0].map(span)
        );
        assert_eq!(
            ["0 B", "20 KiB", "1.5 MiB", "2.0 GiB"],
            [0, 20_480, 1_572_864, 2 << 30].map(size)
        );
    }
}
