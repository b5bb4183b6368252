//! The next delay as it followed on the most similar ones of before: arrival delay prediction by chaos theory.
//! Source: papers/fd-mvqs.txt, §4.2, Eq. 15-20.
//! Inputs: delays in seconds. Outputs: a delay. O(`Series` · `DIMENSION_MAX`²) a cell.
//! Deviations: the dimension by the error of late instead of Grassberger and Procaccia; the inverse of the logarithm;
//! a fit over the scalar pairs, guarded; any number of cells ahead (docs/algorithms-link.md#chaos).
//! Limits: `DIMENSION_MAX`, `NEIGHBOURS`.

use super::judge::Judge;
use super::predictor::Predictor;
use super::series::Series;

/// Largest dimension m of the phase space; τ is 1.
const DIMENSION_MAX: usize = 5;
/// Adjacent points, h: the paper does not say how many.
const NEIGHBOURS: usize = 8;
/// b of Eq. 17.
const DECAY: f64 = 1.0;
/// The fit of Eq. 18 is no steeper than this.
const SLOPE_MAX: f64 = 4.0;
/// Below this variance of the neighbours there is no slope to be seen.
const VARIANCE_MIN: f64 = 1e-12;
/// The logarithm is one of milliseconds.
const MILLIS: f64 = 1e3;

/// The rule, with what each dimension has shown.
#[derive(Debug, Default)]
pub(super) struct Chaos {
    judges: [Judge; DIMENSION_MAX],
}

/// A point of the phase space whose future is known: its place, and its distance from the centre.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    place: usize,
    distance: f64,
}

/// The nearest of the phase points Y_1.. that have an image `cells` later; the centre is the newest, Y_X.
fn neighbours(values: &[f64], dimension: usize, cells: usize) -> Vec<Neighbour> {
    let centre = values.len() - dimension;
    let distance = |place: usize| {
        let squares = (0..dimension).map(|k| (values[place + k] - values[centre + k]).powi(2));
        Neighbour { place, distance: squares.sum::<f64>().sqrt() }
    };
    let mut all: Vec<Neighbour> = (0..centre.saturating_sub(cells - 1)).map(distance).collect();
    let by_distance =
        |left: &Neighbour, right: &Neighbour| left.distance.total_cmp(&right.distance);
    if all.len() > NEIGHBOURS {
        all.select_nth_unstable_by(NEIGHBOURS, by_distance);
        all.truncate(NEIGHBOURS);
    }
    all
}

/// The last coordinate of the centre's image, Eq. 17-20; `None` where too little is known.
fn image(values: &[f64], dimension: usize, cells: usize) -> Option<f64> {
    if values.len() < dimension + cells + NEIGHBOURS {
        return None;
    }
    let near = neighbours(values, dimension, cells);
    let least = near.iter().map(|near| near.distance).fold(f64::INFINITY, f64::min);
    let pairs = near.iter().flat_map(|near| {
        let weight = (-DECAY * (near.distance - least)).exp();
        let at = move |k: usize| near.place + k;
        (0..dimension).map(move |k| (weight, values[at(k)], values[at(k) + cells]))
    });
    let (mut sum, mut mean_x, mut mean_y) = (0.0, 0.0, 0.0);
    for (weight, x, y) in pairs.clone() {
        sum += weight;
        mean_x += weight * x;
        mean_y += weight * y;
    }
    (mean_x, mean_y) = (mean_x / sum, mean_y / sum);
    let (mut variance, mut covariance) = (0.0, 0.0);
    for (weight, x, y) in pairs {
        variance += weight / sum * (x - mean_x).powi(2);
        covariance += weight / sum * (x - mean_x) * (y - mean_y);
    }
    let slope = if variance > VARIANCE_MIN { covariance / variance } else { 0.0 };
    let newest = values[values.len() - 1];
    Some(mean_y + slope.clamp(-SLOPE_MAX, SLOPE_MAX) * (newest - mean_x))
}

impl Predictor for Chaos {
    fn predict(&mut self, series: &Series, cells: usize) -> f64 {
        let least = series.values().fold(f64::INFINITY, f64::min);
        let log = |delay: f64| ((delay - least) * MILLIS).ln_1p();
        let values: Vec<f64> = series.values().map(log).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let mut best = (f64::INFINITY, series.last());
        for (place, judge) in self.judges.iter_mut().enumerate() {
            judge.compare(series);
            let Some(next) = image(&values, place + 1, cells) else { continue };
            // Nothing that was not seen of late is predicted.
            let delay = least + next.clamp(0.0, most).exp_m1() / MILLIS;
            judge.say(series, cells, delay);
            if judge.error() < best.0 || !best.0.is_finite() && place == 0 {
                best = (judge.error(), delay);
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_the_nearest_that_have_a_future() {
        let values: Vec<f64> = (0..40).map(|n| f64::from(n % 10)).collect();
        // The centre is (8, 9) at 38; the same at 8, 18 and 28, and only those two have an image 11 later.
        let mut near = neighbours(&values, 2, 11);
        near.retain(|near| near.distance < 1e-9);
        let mut places: Vec<usize> = near.iter().map(|near| near.place).collect();
        places.sort_unstable();
        assert_eq!(places, [8, 18]);
        assert!(neighbours(&values, 2, 10).iter().any(|near| near.place == 28));
    }

    #[test]
    fn equation_18_is_fitted_through_the_neighbours() {
        // y = 3x - 1 everywhere near the centre: the image of 0.7 is 1.1.
        let mut values = Vec::new();
        for n in 0..20 {
            let x = 0.6 + 0.01 * f64::from(n);
            values.extend([x, 3.0 * x - 1.0, 9.0, 9.0]);
        }
        values.push(0.7);
        let found = image(&values, 1, 1);
        assert!(found.is_some_and(|image| (image - 1.1).abs() < 1e-9), "{found:?}");
    }

    #[test]
    fn a_dimension_of_two_is_chosen_where_one_cannot_tell() {
        // 1, 2, 1, 3: what follows on 1 depends on what was before it.
        let value = |cell: u64| [1.0, 2.0, 1.0, 3.0][(cell % 4) as usize] * 0.01;
        let (mut chaos, mut series) = (Chaos::default(), Series::default());
        let mut said = 0.0;
        for cell in 0..400 {
            series.push(cell, value(cell));
            said = chaos.predict(&series, 1);
        }
        assert!((said - value(400)).abs() < 1e-6, "{said}");
        let errors: Vec<f64> = chaos.judges.iter().map(Judge::error).collect();
        assert!(errors[0] > 10.0 * errors[1].max(1e-6), "{errors:?}");
    }
}
