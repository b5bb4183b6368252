//! A plot as SVG: white ground, dark axes, curves that differ in colour and in dashes, so that it can be
//! read in print too.

use std::fmt::Write as _;

use super::plot::{Mark, Plot};
use super::scale::Scale;

/// The whole picture, and where the axes lie in it.
const WIDTH: f64 = 784.0;
const LEFT: f64 = 86.0;
const RIGHT: f64 = 742.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 350.0;
/// Of a row of the legend.
const ROW: f64 = 20.0;
/// Curves side by side in the legend.
const COLUMNS: usize = 3;
/// Colours that the colour-blind can tell apart (Okabe and Ito), darkest first, with their dashes.
const STYLES: [(&str, &str); 7] = [
    ("#000000", ""),
    ("#0072b2", "7 3"),
    ("#d55e00", "2 2"),
    ("#009e73", "10 3 2 3"),
    ("#cc79a7", "5 2 1 2 1 2"),
    ("#56b4e9", "14 4"),
    ("#e69f00", "3 5"),
];

pub(super) fn draw(plot: &Plot) -> String {
    let points = || plot.curves.iter().flat_map(|curve| curve.points.iter().copied());
    let x = Scale::new(&plot.x, points().map(|(x, _)| x));
    let y = Scale::new(&plot.y, points().map(|(_, y)| y));
    let rows = plot.curves.len().div_ceil(COLUMNS) as f64;
    let height = BOTTOM + 62.0 + rows * ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#111\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{}</text>\n",
        plain(&plot.title)
    );
    axes(&mut svg, plot, x, y);
    for (place, curve) in plot.curves.iter().enumerate() {
        let (colour, dashes) = STYLES[place % STYLES.len()];
        let placed: Vec<(f64, f64)> = curve
            .points
            .iter()
            .filter_map(|(to_right, up)| Some((across(x.place(*to_right)?), down(y.place(*up)?))))
            .collect();
        match curve.mark {
            Mark::Dots => dots(&mut svg, &placed, colour),
            mark => line(&mut svg, &placed, mark, colour, dashes),
        }
        let at = LEFT + (place % COLUMNS) as f64 * (RIGHT - LEFT) / COLUMNS as f64;
        let row = BOTTOM + 62.0 + (place / COLUMNS) as f64 * ROW;
        let sample = match curve.mark {
            Mark::Dots => {
                format!("<circle cx=\"{}\" cy=\"{row}\" r=\"3\" fill=\"{colour}\"/>", at + 14.0)
            }
            _ => format!(
                "<line x1=\"{at}\" y1=\"{row}\" x2=\"{}\" y2=\"{row}\" stroke=\"{colour}\" \
                 stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>",
                at + 28.0
            ),
        };
        let name = plain(&curve.name);
        let _ =
            writeln!(svg, "{sample}<text x=\"{}\" y=\"{}\">{name}</text>", at + 34.0, row + 4.0);
    }
    svg + "</svg>\n"
}

fn axes(svg: &mut String, plot: &Plot, x: Scale, y: Scale) {
    for tick in x.ticks() {
        let Some(at) = x.place(tick.value).map(across) else { continue };
        rule(svg, (at, TOP), (at, BOTTOM), !tick.text.is_empty());
        let label = BOTTOM + 18.0;
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{label}\" text-anchor=\"middle\">{}</text>",
            tick.text
        );
    }
    for tick in y.ticks() {
        let Some(at) = y.place(tick.value).map(down) else { continue };
        rule(svg, (LEFT, at), (RIGHT, at), !tick.text.is_empty());
        let (side, base) = (LEFT - 8.0, at + 4.5);
        let _ = writeln!(
            svg,
            "<text x=\"{side}\" y=\"{base:.1}\" text-anchor=\"end\">{}</text>",
            tick.text
        );
    }
    let (width, height) = (RIGHT - LEFT, BOTTOM - TOP);
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#111\"/>"
    );
    let label = |axis: &super::Axis| match &*axis.unit {
        "" | "1" => plain(&axis.label),
        unit => format!("{} ({})", plain(&axis.label), plain(unit)),
    };
    let (middle, below) = (LEFT + width / 2.0, BOTTOM + 40.0);
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">{}</text>",
        label(&plot.x)
    );
    let middle = TOP + height / 2.0;
    let _ = writeln!(
        svg,
        "<text transform=\"translate(20 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        label(&plot.y)
    );
}

/// A line of the grid; thin where it has no text.
fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64), is_written: bool) {
    let colour = if is_written { "#c8c8c8" } else { "#ececec" };
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn line(svg: &mut String, points: &[(f64, f64)], mark: Mark, colour: &str, dashes: &str) {
    let mut path = String::new();
    for (place, (x, y)) in points.iter().enumerate() {
        let step = match (place, mark) {
            (0, Mark::Steps) => format!("M{x:.1} {BOTTOM:.1}V{y:.1}"),
            (0, _) => format!("M{x:.1} {y:.1}"),
            (_, Mark::Steps) => format!("H{x:.1}V{y:.1}"),
            _ => format!("L{x:.1} {y:.1}"),
        };
        path += &step;
    }
    let _ = writeln!(
        svg,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
         stroke-dasharray=\"{dashes}\"/>"
    );
}

fn dots(svg: &mut String, points: &[(f64, f64)], colour: &str) {
    for (x, y) in points {
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\" fill=\"{colour}\"/>");
    }
}

fn across(place: f64) -> f64 {
    LEFT + place * (RIGHT - LEFT)
}

fn down(place: f64) -> f64 {
    BOTTOM - place * (BOTTOM - TOP)
}

/// Text without what SVG takes for its own.
fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Axis, Curve};

    #[test]
    fn axes_carry_labels_with_units_and_curves_their_names() {
        let plot = Plot {
            title: "a < b".into(),
            x: Axis::log("latency", "ms"),
            y: Axis::linear("share of records", "1"),
            curves: vec![
                Curve::new(
                    "tidegate",
                    Mark::Steps,
                    vec![(1.0, 1.0 / 3.0), (2.0, 2.0 / 3.0), (100.0, 1.0)],
                ),
                Curve::new("rival", Mark::Dots, vec![(10.0, 0.5)]),
                Curve::new("nothing", Mark::Line, vec![]),
            ],
        };
        let svg = draw(&plot);
        for text in
            ["a &lt; b", "latency (ms)", ">share of records<", ">tidegate<", ">rival<", ">100<"]
        {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        // 1 ms at the left edge, the last value at the right one, the whole at the top.
        assert!(svg.contains("M86.0 350.0V246.7H"), "{svg}");
        assert!(svg.contains("H742.0V40.0"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2, "the dot, and its sample");
        assert!(!svg.contains("NaN") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn curves_differ_without_colours_too() {
        let dashes: std::collections::BTreeSet<&str> = STYLES.iter().map(|style| style.1).collect();
        assert_eq!(dashes.len(), STYLES.len());
    }
}
