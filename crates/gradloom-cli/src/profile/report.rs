//! The profile as tables, and as JSON. The keys of the JSON are a contract: they are added to, never renamed.

use super::collect::{Profile, Row};
use crate::format::{bytes, thousands};
use gradloom::plan::Cost;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Launches put together.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    launches: usize,
    cost: Cost,
    seconds: f64,
    bound: f64,
}

impl Sum {
    fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        rows.into_iter().fold(Self::default(), |mut sum, row| {
            sum.launches += 1;
            sum.cost += row.cost;
            sum.seconds += row.seconds;
            sum.bound += row.bound;
            sum
        })
    }

    fn gflops(&self) -> f64 {
        ratio(self.cost.flops as f64 / 1e9, self.seconds)
    }

    fn gigabytes(&self) -> f64 {
        ratio(self.cost.bytes() as f64 / 1e9, self.seconds)
    }

    /// Share of the roofline.
    fn share(&self) -> f64 {
        ratio(self.bound, self.seconds)
    }

    fn json(&self) -> Value {
        json!({
            "us": self.seconds * 1e6,
            "flops": self.cost.flops,
            "bytes_read": self.cost.bytes_read,
            "bytes_written": self.cost.bytes_written,
            "gflops_per_s": self.gflops(),
            "gb_per_s": self.gigabytes(),
            "bound_us": self.bound * 1e6,
            "roofline_share": self.share(),
        })
    }
}

/// 0 where nothing was measured.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// Kinds of kernels, the one that takes longest first.
fn by_kernel(profile: &Profile) -> Vec<(&'static str, Sum)> {
    let mut kinds: BTreeMap<&'static str, Vec<&Row>> = BTreeMap::new();
    profile.rows.iter().for_each(|row| kinds.entry(row.kernel).or_default().push(row));
    let mut kinds: Vec<_> = kinds.into_iter().map(|(name, rows)| (name, Sum::of(rows))).collect();
    kinds.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
    kinds
}

/// Launches with their places in the plan, longest first.
fn longest(profile: &Profile) -> Vec<(usize, &Row)> {
    let mut rows: Vec<(usize, &Row)> = profile.rows.iter().enumerate().collect();
    rows.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
    rows
}

/// One JSON object on one line.
pub(super) fn json(profile: &Profile) -> String {
    let merged = |mut object: Value, more: Value| {
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
        object
    };
    let kinds: Vec<Value> = by_kernel(profile)
        .into_iter()
        .map(|(name, sum)| merged(json!({ "kernel": name, "launches": sum.launches }), sum.json()))
        .collect();
    let launches: Vec<Value> = longest(profile)
        .into_iter()
        .map(|(i, row)| {
            let phase = if row.commits { "commit" } else { "compute" };
            let what = json!({
                "launch": i, "kernel": row.kernel, "op": row.op, "place": row.place, "phase": phase,
            });
            merged(what, Sum::of([row]).json())
        })
        .collect();
    let bandwidth: Vec<Value> = profile
        .bounds
        .bandwidth
        .iter()
        .map(|(set, rate)| json!({ "working_set_bytes": set, "gb_per_s": rate / 1e9 }))
        .collect();
    let total = Sum::of(&profile.rows);
    json!({
        "config": profile.config,
        "device_name": profile.device,
        "threads": profile.threads,
        "steps": profile.steps,
        "us_per_step": profile.step * 1e6,
        "host_us_per_step": profile.host * 1e6,
        "roofline": { "gflops_per_s": profile.bounds.flops / 1e9, "bandwidth": bandwidth },
        "total": merged(json!({ "launches": total.launches }), total.json()),
        "kernels": kinds,
        "launches": launches,
    })
    .to_string()
}

/// The profile as tables.
pub(super) fn text(profile: &Profile, top: usize) -> String {
    let mut text = String::new();
    write(profile, top, &mut text).expect("a string takes all text");
    text
}

fn write(profile: &Profile, top: usize, out: &mut String) -> fmt::Result {
    let total = Sum::of(&profile.rows);
    writeln!(out, "{} on {}, {} threads used", profile.config, profile.device, profile.threads)?;
    write!(out, "bounds: {:.0} GFLOP/s", profile.bounds.flops / 1e9)?;
    for (set, rate) in &profile.bounds.bandwidth {
        write!(out, ", {:.0} GB/s in {}", rate / 1e9, bytes(*set))?;
    }
    writeln!(
        out,
        "\n\na step takes {}, of which {} outside kernels (medians of {})\n",
        time(profile.step),
        time(profile.host),
        thousands(profile.steps)
    )?;
    writeln!(out, "{:<18} {:>8} {FIGURES}", "kernel", "launches")?;
    for (name, sum) in by_kernel(profile) {
        writeln!(out, "{name:<18} {:>8} {}", thousands(sum.launches as u64), figures(&sum, profile))?;
    }
    let launches = thousands(total.launches as u64);
    writeln!(out, "{:<18} {launches:>8} {}", "total", figures(&total, profile))?;
    if top == 0 {
        return Ok(());
    }
    let rows = longest(profile);
    let (listed, others) = rows.split_at(top.min(rows.len()));
    writeln!(out, "\n{:<18} {:>8} {FIGURES}  asked for by", "longest launches", "number")?;
    for (i, row) in listed {
        let place = row.place.as_deref().map_or("", short);
        let sum = Sum::of([*row]);
        writeln!(out, "{:<18} {i:>8} {}  {} {place}", row.kernel, figures(&sum, profile), row.op)?;
    }
    if !others.is_empty() {
        let sum = Sum::of(others.iter().map(|(_, row)| *row));
        writeln!(
            out,
            "{:<27} {}",
            format!("{} others", thousands(sum.launches as u64)),
            figures(&sum, profile)
        )?;
    }
    Ok(())
}

const FIGURES: &str = "     time  of step     Mflop        moved  GFLOP/s     GB/s  of roof";

fn figures(sum: &Sum, profile: &Profile) -> String {
    format!(
        "{:>9} {:>7.1}% {:>9.2} {:>12} {:>8.1} {:>8.1} {:>7.0}%",
        time(sum.seconds),
        100.0 * ratio(sum.seconds, profile.step),
        sum.cost.flops as f64 / 1e6,
        bytes(sum.cost.bytes()),
        sum.gflops(),
        sum.gigabytes(),
        100.0 * sum.share()
    )
}

/// `12.3 us`, `4.56 ms`.
fn time(seconds: f64) -> String {
    match seconds * 1e6 {
        // One decimal never rounds up to 1000.0.
        us if us < 999.95 => format!("{us:.1} us"),
        us => format!("{:.2} ms", us / 1e3),
    }
}

/// A place without the folders.
fn short(place: &str) -> &str {
    place.rsplit(['/', '\\']).next().unwrap_or(place)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use gradloom::runtime::cpu::Roofline;

    pub(in crate::profile) fn profile() -> Profile {
        let row = |kernel, place: Option<&str>, flops, seconds| Row {
            kernel,
            op: "add",
            place: place.map(String::from),
            commits: kernel == "copy",
            cost: Cost { flops, bytes_read: 3_000, bytes_written: 1_000 },
            seconds,
            bound: 1e-6,
        };
        Profile {
            config: "toy",
            device: "Example 9000".into(),
            threads: 2,
            bounds: Roofline { threads: 2, flops: 5e9, bandwidth: vec![(1 << 20, 4e9)] },
            steps: 7,
            step: 20e-6,
            host: 3e-6,
            rows: vec![
                row("map", Some("src/a.rs:1:2"), 8_000, 4e-6),
                row("copy", None, 0, 0.0),
                row("map", Some("b.rs:3:4"), 8_000, 12e-6),
            ],
            traced: Vec::new(),
        }
    }

    #[test]
    fn tables_are_sorted_and_add_up() {
        let text = text(&profile(), 1);
        let expected = "\
toy on Example 9000, 2 threads used
bounds: 5 GFLOP/s, 4 GB/s in 1.0 MB

a step takes 20.0 us, of which 3.0 us outside kernels (medians of 7)

kernel             launches      time  of step     Mflop        moved  GFLOP/s     GB/s  of roof
map                       2   16.0 us    80.0%      0.02       8.0 kB      1.0      0.5      12%
copy                      1    0.0 us     0.0%      0.00       4.0 kB      0.0      0.0       0%
total                     3   16.0 us    80.0%      0.02      12.0 kB      1.0      0.8      19%

longest launches     number      time  of step     Mflop        moved  GFLOP/s     GB/s  of roof  asked for by
map                       2   12.0 us    60.0%      0.01       4.0 kB      0.7      0.3       8%  add b.rs:3:4
2 others                       4.0 us    20.0%      0.01       8.0 kB      2.0      2.0      50%
";
        assert_eq!(text, expected);
        assert_eq!(super::text(&profile(), 0), expected.split("\nlongest").next().unwrap());
    }

    #[test]
    fn json_lists_every_launch() {
        let json: Value = serde_json::from_str(&json(&profile())).unwrap();
        let order: Vec<u64> =
            json["launches"].as_array().unwrap().iter().map(|l| l["launch"].as_u64().unwrap()).collect();
        assert_eq!(order, [2, 0, 1]);
        assert_eq!(
            (&json["launches"][1]["place"], &json["launches"][2]["place"]),
            (&"src/a.rs:1:2".into(), &Value::Null)
        );
        assert_eq!((&json["kernels"][0]["launches"], &json["total"]["flops"]), (&2.into(), &16_000.into()));
        assert_eq!(json["launches"][2]["phase"], "commit");
    }

    #[test]
    fn times_have_a_unit_that_suits_them() {
        assert_eq!(
            [0.0, 1e-6, 999.9e-6, 999.96e-6, 1.5].map(time),
            ["0.0 us", "1.0 us", "999.9 us", "1.00 ms", "1500.00 ms"]
        );
    }
}
