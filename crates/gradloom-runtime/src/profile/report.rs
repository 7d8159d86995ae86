//! Prints the profile as tables and as JSON. Keys of the JSON may be added, but are never renamed.

use super::collect::Profile;
use super::figures::{Figures, ratio};
use crate::train::thousands;
use gradloom_core::plan::report::human_bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};

/// Number of launches that `Display` lists.
const LISTED: usize = 20;

impl Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self, LISTED, f)
    }
}

fn figures_json(figures: &Figures) -> Value {
    json!({
        "us": figures.seconds * 1e6,
        "flops": figures.cost.flops,
        "bytes_read": figures.cost.bytes_read,
        "bytes_written": figures.cost.bytes_written,
        "gflops_per_s": figures.gflops_per_second(),
        "gb_per_s": figures.gigabytes_per_second(),
        "bound_us": figures.bound.map(|bound| bound * 1e6),
        "roofline_share": figures.share(),
    })
}

/// Returns the profile as one JSON object on one line.
pub(super) fn json(profile: &Profile) -> String {
    let merged = |mut object: Value, more: Value| {
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
        object
    };
    let kinds: Vec<Value> = profile
        .kernels()
        .into_iter()
        .map(|(name, sum)| merged(json!({ "kernel": name, "launches": sum.launches }), figures_json(&sum)))
        .collect();
    let launches: Vec<Value> = profile
        .longest()
        .into_iter()
        .map(|(i, launch)| {
            let phase = if launch.commits { "commit" } else { "compute" };
            let what = json!({
                "launch": i, "name": launch.name, "kernel": launch.kernel, "op": launch.op,
                "place": launch.place, "phase": phase, "obstacle": launch.obstacle,
            });
            merged(what, figures_json(&Figures::of([launch])))
        })
        .collect();
    let roof = profile.roof.as_ref().map(|roof| {
        let rate = |(set, rate): &(u64, f64)| json!({ "working_set_bytes": set, "gb_per_s": rate / 1e9 });
        let bandwidth: Vec<Value> = roof.bandwidth.iter().map(rate).collect();
        let products = roof.products.map(|rate| rate / 1e9);
        json!({ "gflops_per_s": roof.flops / 1e9, "product_gflops_per_s": products, "bandwidth": bandwidth })
    });
    let total = profile.total();
    json!({
        "config": profile.name,
        "device_name": profile.device,
        "threads": profile.threads,
        "steps": profile.steps,
        "us_per_step": profile.seconds * 1e6,
        "host_us_per_step": profile.host_seconds * 1e6,
        "overlapped_us_per_step": profile.overlapped_seconds.map(|seconds| seconds * 1e6),
        "unhidden_us_per_step": profile.unhidden_seconds().map(|seconds| seconds * 1e6),
        "roofline": roof,
        "total": merged(json!({ "launches": total.launches }), figures_json(&total)),
        "kernels": kinds,
        "launches": launches,
    })
    .to_string()
}

pub(super) fn text(profile: &Profile, top: usize) -> String {
    let mut text = String::new();
    write(profile, top, &mut text).expect("a string takes all text");
    text
}

fn write(profile: &Profile, top: usize, out: &mut impl Write) -> fmt::Result {
    let total = profile.total();
    writeln!(out, "{} on {}, {} threads used", profile.name, profile.device, profile.threads)?;
    if let Some(roof) = &profile.roof {
        write!(out, "bounds: {:.0} GFLOP/s", roof.flops / 1e9)?;
        if let Some(products) = roof.products {
            write!(out, ", {:.0} in products", products / 1e9)?;
        }
        for (set, rate) in &roof.bandwidth {
            write!(out, ", {:.0} GB/s in {}", rate / 1e9, human_bytes(*set))?;
        }
        writeln!(out)?;
    }
    writeln!(
        out,
        "\na step takes {}, of which {} outside kernels (medians of {})\n",
        time(profile.seconds),
        time(profile.host_seconds),
        thousands(profile.steps)
    )?;
    if let (Some(overlapped), Some(unhidden)) = (profile.overlapped_seconds, profile.unhidden_seconds()) {
        writeln!(
            out,
            "as it is trained, it takes {}; communication that nothing hides, and waiting for other ranks, take {} of \
             this\n",
            time(overlapped),
            time(unhidden.max(0.0))
        )?;
    }
    let heads = heads(profile);
    writeln!(out, "{:<18} {:>8} {heads}", "kernel", "launches")?;
    for (name, sum) in profile.kernels() {
        writeln!(out, "{name:<18} {:>8} {}", thousands(sum.launches as u64), figures(&sum, profile))?;
    }
    let launches = thousands(total.launches as u64);
    writeln!(out, "{:<18} {launches:>8} {}", "total", figures(&total, profile))?;
    write_obstacles(profile, out)?;
    if top == 0 {
        return Ok(());
    }
    let longest = profile.longest();
    let (listed, others) = longest.split_at(top.min(longest.len()));
    writeln!(out, "\n{:<18} {:>8} {heads}  asked for by", "longest launches", "number")?;
    for (i, launch) in listed {
        let place = launch.place.as_deref().map_or("", short);
        let one = Figures::of([*launch]);
        writeln!(out, "{:<18} {i:>8} {}  {} {place}", launch.kernel, figures(&one, profile), launch.op)?;
    }
    if !others.is_empty() {
        let sum = Figures::of(others.iter().map(|(_, launch)| *launch));
        let count = format!("{} others", thousands(sum.launches as u64));
        writeln!(out, "{count:<27} {}", figures(&sum, profile))?;
    }
    Ok(())
}

/// Writes why launches have general kernels: each reason, with the launches and their time.
fn write_obstacles(profile: &Profile, out: &mut impl Write) -> fmt::Result {
    let mut reasons: BTreeMap<(&str, &str), (Vec<usize>, f64)> = BTreeMap::new();
    for (i, launch) in profile.launches.iter().enumerate() {
        if let Some(reason) = &launch.obstacle {
            let (launches, seconds) = reasons.entry((launch.kernel, reason)).or_default();
            launches.push(i);
            *seconds += launch.seconds;
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ngeneral kernels, where the device has faster ones")?;
    for ((kernel, reason), (launches, seconds)) in reasons {
        let more =
            if launches.len() > 1 { format!(" and {} more", launches.len() - 1) } else { String::new() };
        writeln!(
            out,
            "{kernel:<18} {:>8} {:>9}: {reason} (launch {}{more})",
            launches.len(),
            time(seconds),
            launches[0]
        )?;
    }
    Ok(())
}

/// Returns the column headers of [`figures`].
fn heads(profile: &Profile) -> String {
    let roof = if profile.roof.is_some() { "  of roof" } else { "" };
    format!("     time  of step     Mflop        moved  GFLOP/s     GB/s{roof}")
}

fn figures(sum: &Figures, profile: &Profile) -> String {
    let share = sum
        .share()
        .filter(|_| profile.roof.is_some())
        .map_or(String::new(), |share| format!(" {:>7.0}%", 100.0 * share));
    format!(
        "{:>9} {:>7.1}% {:>9.2} {:>12} {:>8.1} {:>8.1}{share}",
        time(sum.seconds),
        100.0 * ratio(sum.seconds, profile.seconds),
        sum.cost.flops as f64 / 1e6,
        human_bytes(sum.cost.bytes()),
        sum.gflops_per_second(),
        sum.gigabytes_per_second(),
    )
}

/// Formats a time as `12.3 us` or `4.56 ms`.
fn time(seconds: f64) -> String {
    match seconds * 1e6 {
        // Values from 999.95 on are printed in ms, because they would be rounded to 1000.0.
        us if us < 999.95 => format!("{us:.1} us"),
        us => format!("{:.2} ms", us / 1e3),
    }
}

/// Returns a source location without the folders.
fn short(place: &str) -> &str {
    place.rsplit(['/', '\\']).next().unwrap_or(place)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::profile::LaunchProfile;
    use gradloom_core::plan::Cost;
    use gradloom_device::host::Roofline;

    pub(in crate::profile) fn profile() -> Profile {
        let launch = |kernel: &'static str, place: Option<&str>, flops, seconds| LaunchProfile {
            name: format!("{kernel} [2 x 3]"),
            kernel,
            op: "add",
            place: place.map(String::from),
            commits: kernel == "copy",
            communicates: kernel == "all_reduce",
            cost: Cost { flops, bytes_read: 3_000, bytes_written: 1_000 },
            seconds,
            bound: Some(1e-6),
            obstacle: None,
        };
        Profile {
            name: "toy".into(),
            device: "Example 9000".into(),
            threads: 2,
            roof: Some(Roofline { threads: 2, flops: 5e9, bandwidth: vec![(1 << 20, 4e9)], products: None }),
            steps: 7,
            seconds: 20e-6,
            host_seconds: 3e-6,
            overlapped_seconds: None,
            launches: vec![
                launch("map", Some("src/a.rs:1:2"), 8_000, 4e-6),
                launch("copy", None, 0, 0.0),
                launch("map", Some("b.rs:3:4"), 8_000, 12e-6),
            ],
            traced: Vec::new(),
        }
    }

    #[test]
    fn what_is_not_hidden_is_the_rest_of_a_step() {
        let mut profile = profile();
        assert!(!text(&profile, 1).contains("nothing hides"));
        // The other kernels take 16 us, and the host 3 us.
        profile.launches[1] = super::super::collect::LaunchProfile {
            kernel: "all_reduce",
            communicates: true,
            seconds: 9e-6,
            ..profile.launches[1].clone()
        };
        profile.overlapped_seconds = Some(25e-6);
        assert!((profile.unhidden_seconds().unwrap() - 6e-6).abs() < 1e-12);
        let text = text(&profile, 1);
        assert!(
            text.contains("as it is trained, it takes 25.0 us;") && text.contains("take 6.0 us of this"),
            "{text}"
        );
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
    fn general_kernels_are_listed_with_their_reasons() {
        let mut profile = profile();
        for i in [0, 2] {
            profile.launches[i].obstacle = Some("rows have 72 elements".to_string());
        }
        let listed = "\ngeneral kernels, where the device has faster ones\n\
            map                       2   16.0 us: rows have 72 elements (launch 0 and 1 more)\n";
        let text = text(&profile, 0);
        assert!(text.ends_with(listed), "{text}");
        let json: Value = serde_json::from_str(&json(&profile)).unwrap();
        assert_eq!(json["launches"][0]["obstacle"], "rows have 72 elements");
    }

    /// A roofline is unknown on a GPU without timestamps; the CPU's limits do not apply to it.
    #[test]
    fn without_a_roof_there_are_no_shares() {
        let mut profile = profile();
        profile.roof = None;
        profile.launches.iter_mut().for_each(|launch| launch.bound = None);
        let text = text(&profile, 1);
        assert!(!text.contains("bounds:") && !text.contains("roof"), "{text}");
        assert!(
            text.contains("\ntotal                     3   16.0 us    80.0%      0.02      12.0 kB"),
            "{text}"
        );
        let json: Value = serde_json::from_str(&json(&profile)).unwrap();
        assert_eq!((&json["roofline"], &json["total"]["roofline_share"]), (&Value::Null, &Value::Null));
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
