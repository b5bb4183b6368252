//! What `top` shows: the newest status of the node, the view that was chosen, and how it is cut to a screen.

use std::time::Instant;

use super::terminal::Key;
use crate::cli::tables;
use crate::cli::tables::{Sort, cut, others, summary};
use crate::observe::status::table::{Mood, Paint, Table};
use crate::observe::status::view::NodeView;

/// A part of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Classes, outputs that are down, links, operators
    #[default]
    Overview,
    /// Each `[[stream]]`
    Streams,
    /// MQTT clients, those for which most waits first
    Clients,
    /// Outputs with their reason when down, the paths of links, the fleet, mirrors
    Outputs,
    /// Topics of operators
    Operators,
    /// Cameras
    Cameras,
}

/// By the key that chooses it, from 1 on.
const VIEWS: [(View, &str); 6] = [
    (View::Overview, "overview"),
    (View::Streams, "streams"),
    (View::Clients, "clients"),
    (View::Outputs, "outputs"),
    (View::Operators, "operators"),
    (View::Cameras, "cameras"),
];

const HELP: &str = "\
q        quit
?        this, and back
1 to 6   overview, streams, clients, outputs, operators, cameras
Tab      the next of them; also left and right
s        sort: as given, name, in, queue, p99, violated, dropped
up, down one line up or down

late         records past their deadline that wait now
1 min        residence (arrival to last byte on the wire) over the last minute
violated     deliveries whose bound passed, since start
dropped      deliveries given up, by reason, since start
lost         accepted - confirmed - dropped - held: anything but 0 is a bug
failed       input that an operator could not use
unconfirmed  records sent and not confirmed";

/// See the file's header.
#[derive(Debug)]
pub(super) struct State {
    node: NodeView,
    told_at: Instant,
    /// Why the node did not answer the last time.
    away: Option<String>,
    view: View,
    sort: Sort,
    is_explaining: bool,
    /// Lines that are scrolled off.
    scrolled: usize,
}

impl State {
    /// Nothing is known yet.
    pub(super) fn new(view: View, sort: Sort) -> Self {
        State {
            node: NodeView::default(),
            told_at: Instant::now(),
            away: None,
            view,
            sort,
            is_explaining: false,
            scrolled: 0,
        }
    }

    /// The node told this.
    pub(super) fn told(&mut self, node: NodeView) {
        (self.node, self.told_at, self.away) = (node, Instant::now(), None);
    }

    /// The node did not answer.
    pub(super) fn missed(&mut self, why: String) {
        self.away = Some(why);
    }

    /// A key was pressed; true where it says to quit.
    pub(super) fn pressed(&mut self, key: Key) -> bool {
        match key {
            Key::Char('q') => return true,
            Key::Char('?') => self.is_explaining = !self.is_explaining,
            Key::Escape => self.is_explaining = false,
            Key::Char('s') => self.sort = next(&Sort::ALL, self.sort, 1),
            Key::Char(digit @ '1'..='6') => {
                self.choose(VIEWS[digit as usize - '1' as usize].0);
            }
            Key::Next => self.choose(next(&VIEWS.map(|(view, _)| view), self.view, 1)),
            Key::Back => {
                self.choose(next(&VIEWS.map(|(view, _)| view), self.view, VIEWS.len() - 1))
            }
            Key::Up => self.scrolled = self.scrolled.saturating_sub(1),
            Key::Down => self.scrolled += 1,
            Key::Char(_) => {}
        }
        false
    }

    fn choose(&mut self, view: View) {
        (self.view, self.scrolled, self.is_explaining) = (view, 0, false);
    }

    /// The text for something that is no screen.
    pub(super) fn render(&self, width: usize, paint: Paint) -> String {
        let away = self.away(width).map(|line| paint.paint(&line, Mood::Bad) + "\n");
        away.unwrap_or_default() + &summary(&self.node, width, paint) + &self.tables(width, paint)
    }

    fn away(&self, width: usize) -> Option<String> {
        let why = self.away.as_ref()?;
        let since = self.told_at.elapsed().as_secs();
        Some(cut(
            &format!("node is away since {since} s, below is what it told last: {why}"),
            width,
        ))
    }

    /// Exactly the lines of a screen of this size.
    pub(super) fn screen(&mut self, columns: usize, rows: usize, paint: Paint) -> Vec<String> {
        let is_away = self.away.is_some();
        // What was before the node went away is not what is.
        let inner = if is_away { Paint::Plain } else { paint };
        let text = match self.is_explaining {
            true => HELP.lines().map(|line| cut(line, columns) + "\n").collect(),
            false => summary(&self.node, columns, inner) + &self.tables(columns, inner),
        };
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let top = self.away(columns).map(|line| paint.paint(&line, Mood::Bad));
        let room = rows.saturating_sub(1 + usize::from(is_away));
        self.scrolled = self.scrolled.min(lines.len().saturating_sub(room));
        let below = lines.len().saturating_sub(room + self.scrolled);
        lines = lines.into_iter().skip(self.scrolled).take(room).collect();
        if is_away {
            lines.iter_mut().for_each(|line| *line = paint.paint(line, Mood::Soft));
        }
        lines.resize(room, String::new());
        let foot = paint.paint(&cut(&self.foot(below), columns), Mood::Soft);
        top.into_iter().chain(lines).chain([foot]).take(rows).collect()
    }

    fn foot(&self, below: usize) -> String {
        let views = VIEWS.iter().enumerate().map(|(place, (view, name))| {
            let number = place + 1;
            if *view == self.view { format!("[{number} {name}]") } else { number.to_string() }
        });
        let views = views.collect::<Vec<_>>().join(" ");
        let sort = format!("{:?}", self.sort).to_lowercase();
        let more = if below > 0 { format!("  {below} more below") } else { String::new() };
        format!("q quit  ? help  s sort: {sort}  {views}{more}")
    }

    fn tables(&self, width: usize, paint: Paint) -> String {
        let (node, sort) = (&self.node, self.sort);
        let none = |what: &str| format!("no {what} here\n");
        let one = |table: Option<Table>, what: &str| {
            table.map_or_else(|| none(what), |table| table.render(width, paint))
        };
        let after = |table: Option<Table>| {
            table.map_or_else(String::new, |table| format!("\n{}", table.render(width, paint)))
        };
        match self.view {
            View::Overview => {
                tables::classes(node, None, sort).render(width, paint)
                    + &after(tables::links(node))
                    + &after(others::operators(node, sort))
            }
            View::Streams => tables::streams(node, sort).render(width, paint),
            View::Clients => one(others::clients(node, sort), "clients"),
            View::Outputs => {
                let fleet = others::fleet(node, width, paint);
                tables::outputs(node).render(width, paint)
                    + &after(tables::links(node))
                    + &(if fleet.is_empty() { fleet } else { format!("\n{fleet}") })
                    + &after(others::mirrors(node))
            }
            View::Operators => one(others::operators(node, sort), "operators"),
            View::Cameras => one(others::cameras(node, sort), "cameras"),
        }
    }
}

/// The one that is so many places after `now`, round and round.
fn next<T: Copy + PartialEq>(all: &[T], now: T, steps: usize) -> T {
    let place = all.iter().position(|&one| one == now).unwrap_or_default();
    all[(place + steps) % all.len()]
}

#[cfg(test)]
mod tests;
