//! True time, and clocks that show something else: as far off as they say they may be, or not told at all.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_node::io::Input;
use tidegate_testing::Wire;

use crate::crash::far::Name;
use crate::crash::world::Random;

const HOUR: Duration = Duration::from_secs(3600);

/// The world's time, and when which record was offered with what to live.
#[derive(Debug)]
pub(crate) struct Clock {
    /// Nanoseconds since the Unix epoch.
    truth: u64,
    lives: BTreeMap<Name, (u64, Duration)>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Clock { truth: 1_800_000_000_000_000_000, lives: BTreeMap::new() }
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.truth += span.as_nanos() as u64;
    }

    /// Somebody sets the node's clock: it jumps, as far as it admits.
    pub(crate) fn tell(&self, wire: &mut Wire, random: &mut Random) {
        let most = [Duration::from_millis(1), Duration::from_secs(1), HOUR];
        let uncertainty = most[random.below(3) as usize];
        let error = random.below(2 * uncertainty.as_nanos() as u64 + 1);
        let unix_ns = self.truth + error - uncertainty.as_nanos() as u64;
        wire.handle(Input::Wall { unix_ns, uncertainty });
    }

    /// A record is offered that lives so long.
    pub(crate) fn born(&mut self, name: Name, lives: Option<Duration>) {
        if let Some(lives) = lives {
            self.lives.insert(name, (self.truth, lives));
        }
    }

    /// Whether a record may expire at all.
    pub(crate) fn is_mortal(&self, name: Name) -> bool {
        self.lives.contains_key(&name)
    }

    /// The node says that a record expired.
    pub(crate) fn expired(&self, name: Name) {
        let Some((born, lives)) = self.lives.get(&name) else { panic!("{name} lives for ever") };
        let age = Duration::from_nanos(self.truth - born);
        assert!(age >= *lives, "{name} expired at an age of {age:?} and may live for {lives:?}");
    }
}
