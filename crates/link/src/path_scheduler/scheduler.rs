//! What a path scheduler is: what it sees of the paths, and what it answers.

use std::fmt;

use tidegate_types::units::Time;

/// A path that can take a piece, as schedulers see it. Sizes are bytes, times seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathView {
    /// Place of the path in the link.
    pub path: usize,
    /// Predicted arrival delay PAD: from sending to arrival with what now stands on the way. All paths
    /// have the same origin.
    pub predicted_delay: f64,
    /// Smoothed round trip.
    pub srtt: f64,
    /// Mean deviation of round trips from the smoothed one.
    pub rtt_variation: f64,
    /// Round trip without queues.
    pub min_rtt: f64,
    /// What may be unacknowledged, swnd.
    pub window: f64,
    /// Mean window before it fell, swnd^top; infinite if it never did.
    pub window_top: f64,
    /// Sent and not acknowledged.
    pub in_flight: f64,
    /// In the path's virtual queue.
    pub queued: f64,
    /// Rate at which the path sends, bytes/s; 0 while it is not known.
    pub pace: f64,
    /// Loss rate ρ, in [0, 1].
    pub loss_rate: f64,
    /// Time from sending a packet until its loss is known.
    pub detection: f64,
}

impl PathView {
    /// Virtual queue length q of the paper, with the piece: what is in flight counts.
    pub(crate) fn ahead(&self, piece: f64) -> f64 {
        self.in_flight + self.queued + piece
    }

    /// Whether the window has room for the piece, q < swnd. An idle path always has.
    pub(crate) fn has_room(&self, piece: f64) -> bool {
        self.in_flight + self.queued <= 0.0 || self.ahead(piece) <= self.window
    }
}

/// What a scheduler's file tells the list of schedulers, in its constant `ENTRY`: how one is made. The number is η of
/// Eq. 22, in [0, 1].
pub(crate) type Build = fn(f64) -> Box<dyn PathScheduler>;

/// What a scheduler is asked: where does this piece go, of all that wait the most urgent one?
#[derive(Clone, Copy, Debug)]
pub struct PieceView<'a> {
    /// When.
    pub now: Time,
    /// Paths whose virtual queues have room for it; never empty.
    pub open: &'a [PathView],
    /// The other paths that work.
    pub full: &'a [PathView],
    /// Bytes of the piece.
    pub piece: f64,
    /// Bytes that wait for a path, the piece included.
    pub waiting: f64,
    /// Bytes of records that the peer takes at most, rwnd.
    pub peer_window: f64,
    /// Whether that has kept a record from beginning within the last round trip.
    pub is_blocked: bool,
}

impl PieceView<'_> {
    /// The path of the least round trip, whether it is open or not.
    pub(crate) fn fastest(&self) -> &PathView {
        let mut fastest = &self.open[0];
        for path in self.open.iter().chain(self.full) {
            if path.srtt < fastest.srtt {
                fastest = path;
            }
        }
        fastest
    }

    /// The place of the open path of the least round trip whose window has room.
    pub(crate) fn fastest_with_room(&self) -> Option<usize> {
        let cost =
            |path: &PathView| if path.has_room(self.piece) { path.srtt } else { f64::INFINITY };
        let place = place_of_least(self.open.iter().map(cost));
        self.open[place].has_room(self.piece).then_some(place)
    }
}

/// A rule that chooses a path.
pub trait PathScheduler: fmt::Debug + Send {
    /// The place in `choice.open` of the path that takes the piece; `None` where it should wait for another
    /// one, which has something under way, so that an acknowledgement will come.
    fn choose(&mut self, choice: &PieceView<'_>) -> Option<usize>;

    /// On how many paths each piece goes, where so many have room.
    fn copies(&self) -> usize {
        1
    }
}

/// The place of the smallest number; the first of several. 0 where there is none.
pub(super) fn place_of_least(numbers: impl Iterator<Item = f64>) -> usize {
    let least = numbers.enumerate().min_by(|(_, left), (_, right)| left.total_cmp(right));
    least.map_or(0, |(place, _)| place)
}
