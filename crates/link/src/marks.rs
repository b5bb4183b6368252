//! How many bytes of a path came marked, by the peer's count of marked packets.

use tidegate_types::units::Size;

/// Marked packets of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountedMarks {
    /// As the peer has counted them.
    told: Option<u64>,
    /// Those that the rate controller has not heard of.
    untold: u64,
}

impl CountedMarks {
    /// The peer has counted so many; answers with how many of them are news. The first count is where it begins: what came
    /// marked in an earlier life says nothing.
    pub(super) fn told(&mut self, packets: u64) -> u64 {
        let before = self.told.unwrap_or(packets);
        self.told = Some(before.max(packets));
        let more = packets.saturating_sub(before);
        self.untold += more;
        more
    }

    /// Of so many packets with so many bytes, which are newly acknowledged, the bytes that came marked: a count tells no sizes.
    /// More marks than packets are those of acknowledgements, which nobody paces.
    pub(super) fn take(&mut self, acked: Size, packets: usize) -> Size {
        let marked = std::mem::take(&mut self.untold).min(packets as u64);
        Size(acked.0 * marked / packets.max(1) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_becomes_bytes_of_what_is_acknowledged_with_it() {
        let mut marks = CountedMarks::default();
        assert_eq!(marks.told(7), 0);
        assert_eq!(marks.take(Size(4000), 4), Size::ZERO, "those of before count for nothing");
        // The last is an older count that comes late.
        assert_eq!([8, 9, 8].map(|packets| marks.told(packets)), [1, 1, 0]);
        assert_eq!(marks.take(Size(4000), 4), Size(2000));
        assert_eq!(marks.told(100), 91);
        assert_eq!(marks.take(Size(4000), 4), Size(4000));
        assert_eq!(marks.take(Size(4000), 4), Size::ZERO);
    }
}
