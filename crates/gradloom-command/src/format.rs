//! Human-readable numbers.

use std::time::Duration;

pub(crate) use gradloom::runtime::thousands;

/// Formats bytes with a decimal unit: `812 B`, `3.4 kB`, `12.3 MB`.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = number as f64;
    let mut unit = 0;
    // Use the next unit from 999.95 on, which would be printed as 1000.0.
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{number} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Formats a number in its shortest form: 0.001, 1e300.
pub(crate) fn number(value: f64) -> String {
    let plain = value == 0.0 || (1e-6..1e16).contains(&value.abs()) || !value.is_finite();
    if plain { value.to_string() } else { format!("{value:e}") }
}

/// Formats a duration in its two largest units: `42s`, `3m 05s`, `2h 07m`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s:02}s"),
        (h, m, _) => format!("{h}h {m:02}m"),
    }
}

/// Formats a number with its noun: `1 layer`, `4 layers`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number as u64), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 999, 1000, 999_949, 999_950].map(bytes),
            ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB"]
        );
        assert_eq!(
            [0.0, -1.0, 0.002, 3e-7, 1e39, f64::INFINITY].map(number),
            ["0", "-1", "0.002", "3e-7", "1e39", "inf"]
        );
        assert_eq!(bytes(u64::MAX), "18446744.1 TB");
        let seconds = [0.4, 59.6, 125.0, 7620.0].map(|s| duration(Duration::from_secs_f64(s)));
        assert_eq!(seconds, ["0s", "1m 00s", "2m 05s", "2h 07m"]);
        assert_eq!([count(1, "file"), count(2000, "step")], ["1 file", "2,000 steps"]);
    }
}
