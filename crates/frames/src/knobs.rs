//! What the Mez paper does to a picture beside its size and its colour: blur, and taking away what does not move; and whether a
//! picture is worth sending at all.
//! Source: papers/mez.txt, §III-A (knobs 3 to 5: blur, artifact removal, frame differencing).
//! Inputs: planes of bytes. Outputs: the same, changed; the part of a plane that differs. O(pixels), whatever the box.
//! Deviations: planes of luminance and chroma in place of red, green and blue; differences on an eighth of the size
//! (docs/algorithms-frames.md#knobs).
//! Limits: none.

/// A pixel that differs by more has changed.
const CHANGED: u8 = 25;
/// The same of a pixel that is the mean of 64: noise is an eighth there.
const CHANGED_MEAN: u8 = 12;
/// Pixels around a moving one that count as moving.
const AROUND: usize = 3;

tidegate_types::named! {
    /// What is taken away.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Artifacts: "artifact removal" {
        /// Nothing.
        #[default]
        Keep = "keep",
        /// What has not moved since the frame before is black.
        Background = "background",
        /// Only the outlines of what has moved stay.
        Contours = "contours",
    }
}

/// The settings of a rung that only the paper has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Knobs {
    /// Side of the box that is averaged, pixels of the source; 0 and 1: none.
    pub blur: u8,
    /// What is taken away.
    pub artifacts: Artifacts,
}

impl Knobs {
    /// Whether there is nothing to do.
    pub fn is_none(self) -> bool {
        self == Knobs::default()
    }
}

/// Averages over boxes of `side` pixels, smaller ones at the edges.
pub fn blur(plane: &mut [u8], width: usize, side: usize) {
    if side < 2 || width == 0 {
        return;
    }
    let height = plane.len() / width;
    let mut line = vec![0; width.max(height)];
    for row in plane.chunks_exact_mut(width) {
        line[..width].copy_from_slice(row);
        along(&line[..width], side, |at, mean| row[at] = mean);
    }
    for column in 0..width {
        (0..height).for_each(|row| line[row] = plane[row * width + column]);
        along(&line[..height], side, |row, mean| plane[row * width + column] = mean);
    }
}

fn along(line: &[u8], side: usize, mut put: impl FnMut(usize, u8)) {
    let (before, behind) = (side / 2, side - side / 2);
    let mut sum: u32 = line.iter().take(behind).map(|&one| u32::from(one)).sum();
    for at in 0..line.len() {
        let (from, to) = (at.saturating_sub(before), (at + behind).min(line.len()));
        put(at, (sum / (to - from) as u32) as u8);
        sum += line.get(at + behind).copied().map_or(0, u32::from);
        sum -= if at >= before { u32::from(line[at - before]) } else { 0 };
    }
}

/// Which pixels move between two planes of luminance of one size, or are near one that does.
pub fn moving(plane: &[u8], before: &[u8], width: usize) -> Vec<bool> {
    let differs = plane.iter().zip(before).map(|(now, then)| now.abs_diff(*then) > CHANGED);
    let mut mask: Vec<bool> = differs.collect();
    if width == 0 {
        return mask;
    }
    let height = mask.len() / width;
    let spread = |line: &[bool], put: &mut dyn FnMut(usize)| {
        let mut until = 0;
        for at in 0..line.len() + AROUND {
            if line.get(at).is_some_and(|moves| *moves) {
                (at.saturating_sub(AROUND).max(until)..(at + AROUND + 1).min(line.len()))
                    .for_each(&mut *put);
                until = at + AROUND + 1;
            }
        }
    };
    for row in 0..height {
        let line = mask[row * width..][..width].to_vec();
        spread(&line, &mut |at| mask[row * width + at] = true);
    }
    for column in 0..width {
        let line: Vec<bool> = (0..height).map(|row| mask[row * width + column]).collect();
        spread(&line, &mut |row| mask[row * width + column] = true);
    }
    mask
}

/// Of what moves only what is beside something that does not.
pub fn outlines(mask: &[bool], width: usize) -> Vec<bool> {
    let is = |at: usize, by: isize| at.checked_add_signed(by).and_then(|at| mask.get(at));
    let wide = width as isize;
    let is_edge = |at: usize| [-1, 1, -wide, wide].iter().any(|by| is(at, *by) != Some(&true));
    mask.iter().enumerate().map(|(at, moves)| *moves && is_edge(at)).collect()
}

/// The part of two small pictures that differs, 0 to 1: each pixel is the mean of 64. All of it where the sizes do.
pub fn difference(now: &[u8], before: &[u8]) -> f64 {
    if now.len() != before.len() || now.is_empty() {
        return 1.0;
    }
    let differ = now.iter().zip(before).filter(|(now, then)| now.abs_diff(**then) > CHANGED_MEAN);
    differ.count() as f64 / now.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blur_is_the_mean_of_a_box() {
        let mut plane = vec![0; 25];
        plane[12] = 90;
        blur(&mut plane, 5, 3);
        // A point of 90 is 10 on each of nine pixels.
        let expected: Vec<u8> = (0..25)
            .map(|at| if (1..4).contains(&(at % 5)) && (1..4).contains(&(at / 5)) { 10 } else { 0 })
            .collect();
        assert_eq!(plane, expected);
        let mut even = vec![7; 24];
        blur(&mut even, 6, 4);
        assert_eq!(even, vec![7; 24], "what is even stays, at the edges too");
        blur(&mut [], 0, 5);
    }

    #[test]
    fn what_moves_is_wider_by_three_pixels_and_has_an_outline() {
        let before = vec![100; 20 * 11];
        let mut now = before.clone();
        now[5 * 20 + 9] = 140;
        now[0] = 120;
        let mask = moving(&now, &before, 20);
        assert_eq!(mask.iter().filter(|moves| **moves).count(), 49);
        assert!(mask[2 * 20 + 6] && mask[8 * 20 + 12] && !mask[20 + 9] && !mask[0]);
        let outline = outlines(&mask, 20);
        assert_eq!(outline.iter().filter(|moves| **moves).count(), 24);
        assert!(!outline[5 * 20 + 9]);
    }

    #[test]
    fn a_difference_is_a_part_of_the_picture() {
        let before = [50; 100];
        let mut now = before;
        now[..7].fill(63);
        now[7..20].fill(62);
        assert!((difference(&now, &before) - 0.07).abs() < 1e-12);
        assert!((difference(&now[..99], &before) - 1.0).abs() < 1e-12);
    }
}
