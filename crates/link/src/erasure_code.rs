//! Repairs of a record: of its k pieces and r repairs any k give all of it.
//! Source: Reed and Solomon 1960; systematic, with the Cauchy matrix of Bloemer et al. 1995, over GF(256) with the
//! polynomial x^8 + x^4 + x^3 + x^2 + 1.
//! Inputs: pieces of one length (a shorter one counts as if zeros followed). Outputs: repairs; missing pieces.
//! O(pieces · length) a repair; O(missing · pieces · length + missing³) to restore.
//! Deviations: columns are scaled so that the first repair is the sum of all pieces.
//! Limits: `PIECES_MAX`, `REPAIRS_MAX`.

/// Pieces of a record that can be repaired.
pub(super) const PIECES_MAX: usize = 128;
/// Repairs of a record.
pub(super) const REPAIRS_MAX: usize = 128;

/// Low bits of the polynomial.
const POLYNOMIAL: u8 = 0x1d;
/// Powers of x, twice, so that the sum of two logarithms is a place.
const POWERS: [u8; 510] = powers();
/// The power of x that a number other than 0 is.
const LOGARITHMS: [u8; 256] = logarithms();

const fn powers() -> [u8; 510] {
    let mut powers = [0; 510];
    let (mut value, mut place) = (1_u8, 0);
    while place < 510 {
        powers[place] = value;
        value = value << 1 ^ if value & 0x80 == 0 { 0 } else { POLYNOMIAL };
        place += 1;
    }
    powers
}

const fn logarithms() -> [u8; 256] {
    let mut logarithms = [0; 256];
    let mut place = 0;
    while place < 255 {
        logarithms[POWERS[place] as usize] = place as u8;
        place += 1;
    }
    logarithms
}

fn product(left: u8, right: u8) -> u8 {
    if left == 0 || right == 0 {
        return 0;
    }
    let sum =
        usize::from(LOGARITHMS[usize::from(left)]) + usize::from(LOGARITHMS[usize::from(right)]);
    POWERS[sum]
}

/// One over a number that is not 0.
fn inverse(number: u8) -> u8 {
    POWERS[255 - usize::from(LOGARITHMS[usize::from(number)])]
}

/// What a piece counts in a repair: `(x_0 + y) / (x + y)`, with x from 128 on and y below.
fn weight(repair: usize, piece: usize) -> u8 {
    let (x, y) = ((PIECES_MAX + repair) as u8, piece as u8);
    product(PIECES_MAX as u8 ^ y, inverse(x ^ y))
}

/// Adds so many times the piece to the sum, which is at least as long.
fn add(sum: &mut [u8], piece: &[u8], times: u8) {
    if times == 1 {
        sum.iter_mut().zip(piece).for_each(|(sum, byte)| *sum ^= byte);
    } else if times != 0 {
        let table: [u8; 256] = std::array::from_fn(|byte| product(times, byte as u8));
        sum.iter_mut().zip(piece).for_each(|(sum, byte)| *sum ^= table[usize::from(*byte)]);
    }
}

/// The repair of this number, below `REPAIRS_MAX`, of at most `PIECES_MAX` pieces of at most `length` bytes.
pub(super) fn repair<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    number: usize,
    length: usize,
) -> Vec<u8> {
    let mut sum = vec![0; length];
    for (place, piece) in pieces.enumerate() {
        add(&mut sum, piece, weight(number, place));
    }
    sum
}

/// Fills the gaps among the pieces from at least as many different repairs, each by its number. All that is
/// filled has `length` bytes.
pub(super) fn restore(
    pieces: &mut [Option<Box<[u8]>>],
    repairs: &[(u8, Box<[u8]>)],
    length: usize,
) {
    let gaps: Vec<usize> = (0..pieces.len()).filter(|&place| pieces[place].is_none()).collect();
    // A row for each gap: what the repair counts of every gap, and what is left of it without the other pieces.
    let row = |(number, repair): &(u8, Box<[u8]>)| {
        let mut rest = repair.to_vec();
        rest.resize(length, 0);
        for (place, piece) in pieces.iter().enumerate() {
            if let Some(piece) = piece {
                add(&mut rest, piece, weight(usize::from(*number), place));
            }
        }
        let weights: Vec<u8> = gaps.iter().map(|&gap| weight(usize::from(*number), gap)).collect();
        (weights, rest)
    };
    let mut rows: Vec<(Vec<u8>, Vec<u8>)> = repairs.iter().take(gaps.len()).map(row).collect();
    solve(&mut rows);
    for (&gap, (_, rest)) in gaps.iter().zip(rows) {
        pieces[gap] = Some(rest.into());
    }
}

/// Gauss and Jordan: afterwards row n holds unknown n. Every square part of a Cauchy matrix has an inverse.
fn solve(rows: &mut [(Vec<u8>, Vec<u8>)]) {
    for column in 0..rows.len() {
        let pivot = (column..rows.len()).find(|&row| rows[row].0[column] != 0);
        rows.swap(column, pivot.unwrap_or(column));
        let scale = inverse(rows[column].0[column]);
        let (weights, rest) = &mut rows[column];
        for byte in weights.iter_mut().chain(rest.iter_mut()) {
            *byte = product(*byte, scale);
        }
        let (weights, rest) = rows[column].clone();
        for (row, (other, sum)) in rows.iter_mut().enumerate() {
            let times = other[column];
            if row != column && times != 0 {
                add(other, &weights, times);
                add(sum, &rest, times);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_field_is_one() {
        // By hand: x^7 · x = x^8 = x^4 + x^3 + x^2 + 1, and (x + 1)^2 = x^2 + 1.
        assert_eq!((product(0x80, 2), product(3, 3), product(0, 7)), (0x1d, 5, 0));
        for number in 1..=255 {
            assert_eq!(product(number, inverse(number)), 1);
        }
        assert_eq!(product(7, product(9, 200)), product(product(7, 9), 200));
        assert_eq!(product(7, 9 ^ 200), product(7, 9) ^ product(7, 200));
    }

    #[test]
    fn the_first_repair_is_the_sum_and_that_of_one_piece_a_copy() {
        let pieces: [&[u8]; 3] = [&[1, 2, 3], &[4, 5, 6], &[7]];
        assert_eq!(repair(pieces.into_iter(), 0, 3), [1 ^ 4 ^ 7, 2 ^ 5, 3 ^ 6]);
        assert_eq!(repair(pieces[..1].iter().copied(), 0, 3), [1, 2, 3]);
    }

    #[test]
    fn most_pieces_and_most_repairs_work() {
        let content: Vec<Vec<u8>> = (0..PIECES_MAX).map(|n| vec![n as u8, !(n as u8)]).collect();
        let number = |n: usize| {
            (n as u8, repair(content.iter().map(Vec::as_slice), n, 2).into_boxed_slice())
        };
        let repairs: Vec<_> = (0..REPAIRS_MAX).map(number).collect();
        let mut pieces = vec![None; PIECES_MAX];
        restore(&mut pieces, &repairs, 2);
        let restored: Vec<Vec<u8>> = pieces.into_iter().flatten().map(Vec::from).collect();
        assert_eq!(restored, content);
    }

    proptest! {
        #[test]
        fn any_k_of_all_give_the_record(
            content in prop::collection::vec(any::<u8>(), 1..400),
            count in 1usize..30,
            lost in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            order in prop::collection::vec(0u8..128, 30),
        ) {
            let length = content.len().div_ceil(count);
            let parts: Vec<&[u8]> = content.chunks(length).collect();
            let mut pieces: Vec<Option<Box<[u8]>>> = parts.iter().map(|part| Some((*part).into())).collect();
            for place in lost {
                pieces[place.index(parts.len())] = None;
            }
            let gaps = pieces.iter().filter(|piece| piece.is_none()).count();
            let mut numbers = order;
            numbers.sort_unstable();
            numbers.dedup();
            prop_assume!(numbers.len() >= gaps);
            numbers.reverse();
            let made = |&number: &u8| {
                let repair = repair(parts.iter().copied(), usize::from(number), length);
                (number, repair.into_boxed_slice())
            };
            let repairs: Vec<_> = numbers.iter().map(made).collect();
            restore(&mut pieces, &repairs, length);
            for (piece, part) in pieces.iter().zip(&parts) {
                let piece = piece.as_deref().unwrap_or_default();
                prop_assert_eq!(&piece[..part.len()], *part);
                prop_assert!(piece[part.len()..].iter().all(|&byte| byte == 0));
            }
        }
    }
}
