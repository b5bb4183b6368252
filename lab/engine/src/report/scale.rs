//! Where a value lies on an axis, and which values are written beside it.

use super::plot::Axis;

/// Ticks that an axis should have at least, if its values allow.
const TICKS: f64 = 5.0;

/// An axis with its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

/// A line across the plot, with its value as text; empty for a line between two written ones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) text: String,
}

impl Scale {
    /// Ends that hold all values, and zero where equal distances are equal differences.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Scale {
        let is_log = axis.is_log;
        let fits = |value: &f64| value.is_finite() && (!is_log || *value > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(fits) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        if is_log {
            // To the next of 1, 2, 5 times a power of ten.
            (low, high) = (floor_125(low), ceil_125(high));
            high = if high <= low { low * 10.0 } else { high };
        } else {
            (low, high) = (low.min(0.0), high.max(0.0));
            let step = step_125((high - low).max(f64::MIN_POSITIVE) / TICKS);
            (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
            high = if high <= low { low + 1.0 } else { high };
        }
        Scale { low, high, is_log }
    }

    /// Where a value lies, from 0 to 1; `None` where it has no place.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let Scale { low, high, is_log } = *self;
        let place = match is_log {
            true if value <= 0.0 => return None,
            true => (value / low).ln() / (high / low).ln(),
            false => (value - low) / (high - low),
        };
        place.is_finite().then_some(place)
    }

    /// From low to high.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let Scale { low, high, is_log } = *self;
        if !is_log {
            let step = step_125((high - low) / TICKS);
            let count = ((high - low) / step).round() as u32;
            let values = (0..=count).map(|number| low + f64::from(number) * step);
            return values.map(|value| Tick { value, text: text(value, step) }).collect();
        }
        let decades = (high / low).log10();
        let mut ticks = Vec::new();
        let first = low.log10().floor() as i32;
        for power in first..=high.log10().ceil() as i32 {
            for factor in 1..10 {
                let value = f64::from(factor) * 10f64.powi(power);
                if value < low * 0.999 || value > high * 1.001 {
                    continue;
                }
                let is_written = factor == 1 || (decades < 3.5 && [2, 5].contains(&factor));
                let text = if is_written { text(value, value) } else { String::new() };
                ticks.push(Tick { value, text });
            }
        }
        ticks
    }
}

/// The largest of 1, 2, 5 times a power of ten that is not above this.
fn floor_125(value: f64) -> f64 {
    let power = 10f64.powf((value * 1.000_001).log10().floor());
    let found = [5.0, 2.0, 1.0].into_iter().find(|factor| factor * power <= value * 1.000_001);
    found.unwrap_or(1.0) * power
}

fn ceil_125(value: f64) -> f64 {
    let below = floor_125(value);
    if below >= value * 0.999_999 {
        return below;
    }
    let power = 10f64.powf((below * 1.000_001).log10().floor());
    let found = [2.0, 5.0].into_iter().find(|factor| factor * power > below * 1.01);
    found.unwrap_or(10.0) * power
}

/// A step of 1, 2 or 5 times a power of ten, near this and not above.
fn step_125(step: f64) -> f64 {
    floor_125(step)
}

/// A value with as many digits as its step needs.
fn text(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    let plain = format!("{value:.digits$}");
    // 1000000 -> 1,000,000
    let (whole, part) = plain.split_once('.').map_or((&*plain, None), |(w, p)| (w, Some(p)));
    let bare = whole.trim_start_matches('-');
    let mut grouped = if bare.len() < whole.len() { "-".to_owned() } else { String::new() };
    for (place, digit) in bare.chars().enumerate() {
        if place > 0 && (bare.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    part.map_or(grouped.clone(), |part| format!("{grouped}.{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(is_log: bool, values: &[f64]) -> Scale {
        let axis = Axis { is_log, ..Axis::default() };
        Scale::new(&axis, values.iter().copied())
    }

    fn texts(scale: Scale) -> Vec<String> {
        let written = |tick: Tick| (!tick.text.is_empty()).then_some(tick.text);
        scale.ticks().into_iter().filter_map(written).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        assert_eq!(texts(scale(false, &[3.0, 29.9])), ["0", "5", "10", "15", "20", "25", "30"]);
        assert_eq!(texts(scale(false, &[0.2, 0.97])), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(
            texts(scale(true, &[14.0, 19_300.0])),
            ["10", "20", "50", "100", "200", "500", "1,000", "2,000", "5,000", "10,000", "20,000"]
        );
        assert_eq!(texts(scale(true, &[1.0, 1e6])).len(), 7, "decades only");
        assert_eq!(texts(scale(false, &[1_500_000.0])).last().unwrap(), "1,600,000");
    }

    #[test]
    fn a_value_has_its_place() {
        let log = scale(true, &[1.0, 100.0]);
        assert!((log.place(10.0).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!([log.place(0.0), log.place(-1.0), log.place(f64::NAN)], [None; 3]);
        let linear = scale(false, &[0.0, 10.0]);
        assert_eq!(linear.place(5.0), Some(0.5));
        assert_eq!(linear.place(f64::INFINITY), None);
    }

    #[test]
    fn an_axis_without_values_is_an_axis_all_the_same() {
        for is_log in [false, true] {
            for values in [&[][..], &[0.0], &[f64::NAN], &[7.0]] {
                let ticks = scale(is_log, values).ticks();
                assert!((2..40).contains(&ticks.len()), "{is_log} {values:?} {ticks:?}");
            }
        }
    }
}
