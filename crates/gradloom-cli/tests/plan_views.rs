//! `inspect --format json|html`: the plan as data is consistent with itself and with the text, and the page
//! is self-contained.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use serde_json::Value;
use std::collections::BTreeMap;

const ALIGNMENT: u64 = 256;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn plan(workspace: &Workspace) -> Value {
    let json = workspace.succeed("inspect tiny --batch 2 --format json").stdout;
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}"))
}

fn accesses(launch: &Value) -> impl Iterator<Item = u64> {
    list(&launch["reads"]).iter().chain(list(&launch["writes"])).map(|access| number(&access["buffer"]))
}

#[test]
fn sums_of_bytes_are_the_totals() {
    let plan = plan(&Workspace::new());
    let buffers = list(&plan["buffers"]);
    let padded = |b: &Value| number(&b["bytes"]).next_multiple_of(ALIGNMENT);
    let in_store =
        |b: &&Value| ["parameter", "frozen", "state"].contains(&text(&b["role"])) && b["region"] == "store";
    let totals = &plan["totals"];
    assert_eq!(number(&totals["store"]), buffers.iter().filter(in_store).map(padded).sum::<u64>());
    let constants = buffers.iter().filter(|b| b["region"] == "constants");
    assert_eq!(number(&totals["constants"]), constants.map(padded).sum::<u64>());
    let ends = buffers.iter().filter(|b| b["region"] == "step").map(|b| number(&b["offset"]) + padded(b));
    assert_eq!(number(&totals["step"]), ends.max().unwrap());
    let regions = ["store", "constants", "step", "workspace"].map(|region| number(&totals[region]));
    assert_eq!(number(&totals["peak"]), regions.iter().sum::<u64>());
    for key in ["flops", "bytes_read", "bytes_written"] {
        let sum: u64 = list(&plan["launches"]).iter().map(|launch| number(&launch[key])).sum();
        assert_eq!(number(&totals[key]), sum, "{key}");
        assert!(sum > 0, "{key}");
    }
    let widest = list(&plan["launches"]).iter().map(|l| number(&l["workspace"])).max().unwrap();
    assert_eq!(number(&totals["workspace"]), widest.next_multiple_of(ALIGNMENT));
    for buffer in buffers {
        let elements: u64 = list(&buffer["shape"]).iter().map(number).product();
        let size = if buffer["dtype"] == "bool" { 1 } else { 4 };
        assert_eq!(number(&buffer["bytes"]), elements * size, "{buffer}");
    }
}

#[test]
fn lives_and_producers_follow_from_the_launches() {
    let plan = plan(&Workspace::new());
    let (launches, buffers) = (list(&plan["launches"]), list(&plan["buffers"]));
    let end = launches.len() as u64;
    let mut lives: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (i, launch) in (0..).zip(launches) {
        for buffer in accesses(launch) {
            lives.entry(buffer).and_modify(|(_, last)| *last = i).or_insert((i, i));
        }
    }
    let first_commit = number(&plan["first_commit"]);
    for (key, moment) in [("outputs", end), ("guards", first_commit)] {
        for watched in list(&plan[key]) {
            let life = lives.get_mut(&number(&watched["access"]["buffer"])).expect("a launch computes it");
            life.1 = life.1.max(moment);
        }
    }
    let mut checked = 0;
    for (i, buffer) in (0..).zip(buffers) {
        let (first, last) = match text(&buffer["role"]) {
            "temporary" | "output" | "next" => lives[&i],
            "input" | "scalar" => (0, lives.get(&i).map_or(0, |life| life.1)),
            _ => (0, end),
        };
        assert_eq!((number(&buffer["first"]), number(&buffer["last"])), (first, last), "{buffer}");
        checked += usize::from(buffer["role"] == "temporary");
    }
    assert!(checked > 50, "{checked} temporaries");

    let mut writer: BTreeMap<u64, usize> = BTreeMap::new();
    for (i, launch) in launches.iter().enumerate() {
        assert_eq!(launch["phase"], if (i as u64) < first_commit { "compute" } else { "commit" });
        let reads = list(&launch["reads"]).iter();
        let mut producers: Vec<usize> =
            reads.filter_map(|read| writer.get(&number(&read["buffer"])).copied()).collect();
        producers.sort_unstable();
        producers.dedup();
        let said: Vec<usize> = list(&launch["producers"]).iter().map(|p| number(p) as usize).collect();
        assert_eq!(said, producers, "launch {i}");
        writer.extend(list(&launch["writes"]).iter().map(|write| (number(&write["buffer"]), i)));
    }
}

/// Counts byte by byte, in units of the smallest alignment (that of scalars), not value by value.
#[test]
fn the_timeline_counts_each_byte_once() {
    const UNIT: u64 = 4;
    let plan = plan(&Workspace::new());
    let (launches, buffers) = (list(&plan["launches"]), list(&plan["buffers"]));
    let units = (number(&plan["totals"]["step"]) / UNIT) as usize;
    let live: Vec<u64> = list(&plan["memory"]["live"]).iter().map(number).collect();
    assert_eq!(live.len(), launches.len() + 1);
    for (moment, &said) in (0..).zip(&live) {
        let mut taken = vec![0_u64; units];
        for buffer in buffers.iter().filter(|b| b["region"] == "step") {
            if (number(&buffer["first"])..=number(&buffer["last"])).contains(&moment) {
                let (offset, bytes) = (number(&buffer["offset"]), number(&buffer["bytes"]));
                for unit in 0..bytes.div_ceil(UNIT) {
                    let rest = (bytes - unit * UNIT).min(UNIT);
                    let at = (offset / UNIT + unit) as usize;
                    taken[at] = taken[at].max(rest);
                }
            }
        }
        assert_eq!(said, taken.iter().sum::<u64>(), "moment {moment}");
        let roles = plan["memory"]["roles"].as_object().unwrap().values();
        assert_eq!(said, roles.map(|role| number(&role[moment as usize])).sum::<u64>());
    }
    let peak = number(&plan["peak_moment"]) as usize;
    assert_eq!(live.iter().position(|n| n == live.iter().max().unwrap()), Some(peak));
    assert!(live[peak] <= number(&plan["totals"]["step"]));
}

#[test]
fn kernels_have_names_places_and_listings() {
    let workspace = Workspace::new();
    let plan = plan(&workspace);
    let launches = list(&plan["launches"]);
    let report = workspace.succeed("inspect tiny --batch 2 --stage plan").stdout;
    assert!(report.starts_with(&format!("{} launches", launches.len())), "{report}");
    for launch in launches {
        // Launches added by the optimizer have no location in the user's source.
        assert!(launch["origin"].is_null() || text(&launch["origin"]).contains(".rs:"), "{launch}");
        let fused = ["map", "row", "reduce"].contains(&text(&launch["kernel"]));
        assert_eq!(
            launch["listing"].is_string(),
            fused || ["epilogue", "group"].iter().any(|part| text(&launch["name"]).contains(part)),
            "{launch}"
        );
    }
    let placed = launches.iter().filter(|launch| launch["origin"].is_string()).count();
    assert!(2 * placed > launches.len(), "{placed} of {} launches have a place", launches.len());
    let row = launches.iter().find(|l| l["name"] == "row [256 x 128]").expect("a layer normalisation");
    assert!(text(&row["listing"]).contains("reduce_sum"), "{row}");
    let roles: Vec<&str> = list(&plan["buffers"]).iter().map(|b| text(&b["role"])).collect();
    for role in ["parameter", "state", "next", "input", "scalar", "output", "temporary"] {
        assert!(roles.contains(&role), "{role}");
    }
}

#[test]
fn the_page_is_one_file_that_needs_no_network() {
    let workspace = Workspace::new();
    let printed = workspace.succeed("inspect gpt2 --format html --output plan.html").stdout;
    assert_eq!(printed, "");
    let page = std::fs::read_to_string(workspace.path("plan.html")).expect("it was written");
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(page.starts_with("<!doctype html>") && page.contains("<title>gpt2: a training step of"));
    for elsewhere in ["http:", "https:", "src=", "url(", "@import", "<link", "fetch("] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    let (_, rest) = page.split_once(r#"id="plan">"#).expect("the plan is inside");
    let (json, _) = rest.split_once("</script>").expect("its element ends");
    let inside: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}"));
    let outside = workspace.succeed("inspect gpt2 --format json").stdout;
    assert_eq!(inside, serde_json::from_str::<Value>(&outside).unwrap());
}

#[test]
fn what_does_not_go_together_is_refused() {
    let workspace = Workspace::new();
    for (arguments, word) in [
        ("inspect tiny --format json --stage grad", "other stages"),
        ("inspect tiny --format html --verify", "--verify"),
        ("inspect tiny --verify --output out.txt", "--verify"),
        ("inspect tiny --output no/such/folder/out.txt", "out.txt"),
    ] {
        let refused = workspace.run(arguments);
        assert_ne!(refused.code, Some(0), "{arguments}");
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
}
