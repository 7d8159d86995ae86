//! A line chart as SVG, readable on light and on dark pages.
//!
//! In: a title and series of points. Out: the text of a file. Invariant: the file has no scripts, fonts or
//! links, and its size is bounded for any number of points.

use std::fmt::Write;

/// A named line.
pub(super) struct Series<'a> {
    pub(super) name: &'a str,
    /// Points by ascending x; those with infinity or NaN are omitted.
    pub(super) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 52.0;
/// Maximum number of points of a line; more are averaged.
const MOST_POINTS: usize = 400;

/// Plain colors and one media query, without CSS variables, which simple viewers do not support.
const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#6b7280}\
.title{font-size:15px;font-weight:600}\
.title,.name{fill:#1f2937}.page{fill:#fff}.rule{stroke:#e5e7eb}.axis{stroke:#6b7280}\
.line{fill:none;stroke-linejoin:round}\
.s0{stroke:#93b4dc;stroke-width:1.6}.s1{stroke:#c2410c;stroke-width:2.4}.d1{fill:#c2410c}\
@media (prefers-color-scheme:dark){text{fill:#9ca3af}.title,.name{fill:#e5e7eb}.page{fill:#0f172a}\
.rule{stroke:#273449}\
.axis{stroke:#9ca3af}.s0{stroke:#4f77ab}.s1{stroke:#fb923c}.d1{fill:#fb923c}}";

/// Draws the series on common axes.
pub(super) fn chart(title: &str, x_label: &str, y_label: &str, series: &[Series<'_>]) -> String {
    let lines: Vec<Vec<(f64, f64)>> = series.iter().map(|s| thinned(&s.points)).collect();
    let (x_axis, y_axis) = (
        Axis::over(lines.iter().flatten().map(|p| p.0), LEFT, WIDTH - RIGHT),
        Axis::over(lines.iter().flatten().map(|p| p.1), HEIGHT - BOTTOM, TOP),
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"28\">{title}</text>\n",
        title = escaped(title)
    );
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let mut put = |text: std::fmt::Arguments<'_>| svg.write_fmt(text).expect("writing to a string");
    for tick in y_axis.ticks() {
        let y = y_axis.place(tick);
        put(format_args!(
            "<line class=\"rule\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n"
        ));
        let (x, y, label) = (LEFT - 8.0, y + 4.5, y_axis.label(tick));
        put(format_args!("<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{label}</text>\n"));
    }
    put(format_args!(
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\n"
    ));
    for tick in x_axis.ticks() {
        let x = x_axis.place(tick);
        let (below, end, label) = (bottom + 20.0, bottom + 5.0, x_axis.label(tick));
        put(format_args!(
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{end}\"/>\n"
        ));
        put(format_args!("<text x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\">{label}</text>\n"));
    }
    let (middle, low) = ((LEFT + right) / 2.0, HEIGHT - 12.0);
    put(format_args!(
        "<text x=\"{middle}\" y=\"{low}\" text-anchor=\"middle\">{}</text>\n",
        escaped(x_label)
    ));
    let centre = (TOP + bottom) / 2.0;
    put(format_args!(
        "<text transform=\"translate(18 {centre}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        escaped(y_label)
    ));
    for (i, (line, s)) in lines.iter().zip(series).enumerate() {
        let places: Vec<String> =
            line.iter().map(|&(x, y)| format!("{:.1},{:.1}", x_axis.place(x), y_axis.place(y))).collect();
        put(format_args!("<polyline class=\"line s{i}\" points=\"{}\"/>\n", places.join(" ")));
        // Draw lines of few points with dots, so that a single point is visible.
        if i > 0 && line.len() <= 60 {
            for &(x, y) in line {
                let (x, y) = (x_axis.place(x), y_axis.place(y));
                put(format_args!("<circle class=\"d{i}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>\n"));
            }
        }
        let x = right - 110.0 * (series.len() - i) as f64;
        put(format_args!("<line class=\"line s{i}\" x1=\"{x}\" x2=\"{}\" y1=\"23\" y2=\"23\"/>\n", x + 24.0));
        put(format_args!("<text class=\"name\" x=\"{}\" y=\"28\">{}</text>\n", x + 32.0, escaped(s.name)));
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns at most [`MOST_POINTS`] points, each the mean of a group of neighboring points.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let finite: Vec<(f64, f64)> =
        points.iter().copied().filter(|p| p.0.is_finite() && p.1.is_finite()).collect();
    let group = finite.len().div_ceil(MOST_POINTS).max(1);
    let mean = |values: &mut dyn Iterator<Item = f64>, n: usize| values.sum::<f64>() / n as f64;
    let mut thin: Vec<(f64, f64)> = Vec::new();
    for group in finite.chunks(group) {
        let n = group.len();
        thin.push((mean(&mut group.iter().map(|p| p.0), n), mean(&mut group.iter().map(|p| p.1), n)));
    }
    thin
}

/// A linear scale with round ticks.
struct Axis {
    low: f64,
    high: f64,
    step: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Creates a scale that covers the values with about 5 to 10 ticks, whose distance is 1, 2 or 5 times a
    /// power of ten. `from` and `to` are its ends in pixels.
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let span = (high - low).max(1e-9 * high.abs().max(low.abs())).max(1e-12);
        let power = 10f64.powf((span / 8.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| span / s <= 8.0);
        let step = step.unwrap_or(10.0 * power);
        Self { low: (low / step).floor() * step, high: ((low + span) / step).ceil() * step, step, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count).map(|i| self.low + i as f64 * self.step).collect()
    }

    fn label(&self, tick: f64) -> String {
        let decimals = (-self.step.log10().floor()).clamp(0.0, 12.0) as usize;
        let text = format!("{tick:.decimals$}");
        // Remove the sign of a number rounded to zero.
        if text.trim_matches(['-', '0', '.']).is_empty() {
            text.trim_start_matches('-').to_string()
        } else {
            text
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(values: &[f64]) -> Axis {
        Axis::over(values.iter().copied(), 0.0, 100.0)
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let a = axis(&[1.83, 5.54]);
        let labels: Vec<_> = a.ticks().iter().map(|&t| a.label(t)).collect();
        assert_eq!(labels, ["1.5", "2.0", "2.5", "3.0", "3.5", "4.0", "4.5", "5.0", "5.5", "6.0"]);
        for values in [&[0.0, 2000.0][..], &[3.0, 3.0], &[0.0, 0.0], &[-1e-7, 1e-7], &[1e9, 1e9 + 1.0], &[]] {
            let a = axis(values);
            let ticks = a.ticks();
            assert!((2..=12).contains(&ticks.len()), "{values:?}: {} ticks", ticks.len());
            for &v in values {
                assert!((-0.01..=100.01).contains(&a.place(v)), "{values:?}");
            }
        }
        assert_eq!(axis(&[-0.3, 0.3]).label(-0.0), "0.0");
    }

    #[test]
    fn many_points_are_averaged_and_broken_ones_left_out() {
        let points: Vec<_> =
            (0..10_000).map(|i| (f64::from(i), if i % 2 == 0 { 1.0 } else { 3.0 })).collect();
        let thin = thinned(&points);
        assert!(thin.len() <= MOST_POINTS && thin.len() > MOST_POINTS / 2);
        assert!(thin.iter().all(|p| (p.1 - 2.0).abs() < 0.05));
        assert_eq!(thinned(&[(1.0, f64::NAN), (2.0, 5.0), (3.0, f64::INFINITY)]), [(2.0, 5.0)]);
    }

    #[test]
    fn the_file_is_well_formed_and_escapes_names() {
        for points in [vec![], vec![(0.0, 5.5)], vec![(0.0, 5.5), (10.0, 2.0)]] {
            let series =
                [Series { name: "a<b", points: points.clone() }, Series { name: "held out", points }];
            let svg = chart("x & \"y\"", "step", "loss", &series);
            assert!(svg.contains("x &amp; &quot;y&quot;") && svg.contains("a&lt;b"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
            let open = svg.matches("<text").count();
            assert_eq!(open, svg.matches("</text>").count());
            assert_eq!(svg.matches("<polyline").count(), 2);
        }
    }
}
