//! `events.jsonl`, and the same events on the standard output.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::{Workspace, wait_until};
use serde_json::Value;
use std::process::Stdio;

const TRAIN: &str = "train --config small.toml --data text.txt --out run";

fn parsed(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn events(workspace: &Workspace) -> Vec<Value> {
    parsed(&workspace.text("run/events.jsonl"))
}

/// Returns the events with this name.
fn named<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

#[test]
fn a_run_tells_what_happens_and_prints_the_same() {
    let workspace = Workspace::new();
    workspace.put("more/a.txt", "one and two are three\n".repeat(40).as_bytes());
    workspace.put("more/b.bin", b"\0\0\0");
    let finished = workspace.succeed("train --config small.toml --out run --json --data text.txt more");
    assert_eq!(finished.stderr, "");
    assert_eq!(finished.stdout, workspace.text("run/events.jsonl"));
    let events = events(&workspace);

    let first = &events[0];
    assert_eq!(
        (&first["event"], &first["step"], &first["steps"]),
        (&"started".into(), &0.into(), &40.into())
    );
    let data = &first["data"];
    assert_eq!((&data["files"], &data["left_out"]), (&2.into(), &1.into()));
    let config: Value = serde_json::from_str(&workspace.text("run/config.json")).unwrap();
    let run = &config["run"];
    assert_eq!((&data["bytes"], &data["sha256"]), (&run["data-bytes"], &run["data-sha256"]));
    assert_eq!(data["names"], serde_json::json!(["text.txt", "more/a.txt"]));

    let rows: Vec<String> = workspace.text("run/metrics.csv").lines().skip(2).map(str::to_string).collect();
    let steps = named(&events, "step");
    assert_eq!((steps.len(), rows.len()), (40, 40));
    for (event, row) in steps.iter().zip(&rows) {
        let fields: Vec<&str> = row.split(',').collect();
        let number = |key: &str| event[key].as_f64().unwrap();
        assert_eq!(event["step"].to_string(), fields[0]);
        assert_eq!(number("training_loss"), fields[1].parse::<f64>().unwrap());
        assert_eq!(number("learning_rate"), fields[3].parse::<f64>().unwrap());
        assert!(number("gradient_norm") > 0.0);
    }
    assert!(steps[0]["tokens_per_s"].is_null(), "the first step tells nothing about the speed");
    assert!(steps[1..].iter().all(|step| step["tokens_per_s"].as_f64().unwrap() > 0.0));

    let at =
        |name| named(&events, name).iter().map(|event| event["step"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(at("evaluated"), [0, 10, 20, 30, 40]);
    assert_eq!(at("saved"), [7, 14, 21, 28, 35, 40]);
    let last = events.last().unwrap();
    assert_eq!(
        (&last["event"], &last["step"], &last["reason"]),
        (&"ended".into(), &40.into(), &"done".into())
    );
    // The parts add up to no more than the total time.
    let seconds = |key: &str| last[format!("{key}seconds").as_str()].as_f64().unwrap();
    let parts = ["start_", "step_", "evaluation_", "saving_", "sample_"].map(seconds);
    assert!(parts.iter().all(|part| *part >= 0.0) && parts.iter().sum::<f64>() > 0.0, "{last}");
    assert!(parts.iter().sum::<f64>() <= seconds("") + 0.01, "{last}");
    let times: Vec<f64> = events.iter().map(|event| event["time"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

/// Tests that lost steps can be recognized: they precede a `resumed` event with a smaller step.
#[test]
fn a_killed_run_goes_on_in_the_same_file() {
    let workspace = Workspace::new();
    let line = format!("{TRAIN} --steps 100000 --save-every 50 --eval-every 100000");
    let mut child = workspace.command(&line).stdout(Stdio::null()).spawn().unwrap();
    let told = || std::fs::read_to_string(workspace.path("run/events.jsonl")).unwrap_or_default();
    wait_until("a saved state", || told().contains("\"saved\""));
    child.kill().unwrap();
    child.wait().unwrap();
    // Let the file end as if the run had been killed in the middle of a line.
    let mut before = workspace.text("run/events.jsonl");
    before.truncate(before.rfind('\n').unwrap() + 1);
    workspace.put("run/events.jsonl", format!("{before}{{\"event\":\"st").as_bytes());
    let last = parsed(&before).iter().map(|event| event["step"].as_u64().unwrap()).max().unwrap();

    let saved = named(&parsed(&before), "saved").last().unwrap()["step"].as_u64().unwrap();
    let steps = saved + 60;
    workspace.succeed(&format!("train --resume run --steps {steps}"));
    let all = workspace.text("run/events.jsonl");
    let after = parsed(all.strip_prefix(&before).expect("what was whole stays as it was"));
    let resumed = &after[0];
    assert_eq!(resumed["event"], "resumed");
    let from = resumed["step"].as_u64().unwrap();
    assert!(from >= saved && from.is_multiple_of(50), "{resumed}");
    assert_eq!(resumed["lost_steps"].as_u64().unwrap(), last - from);
    let made: Vec<u64> = named(&after, "step").iter().map(|event| event["step"].as_u64().unwrap()).collect();
    assert_eq!(made, (from + 1..=steps).collect::<Vec<_>>());

    // For the steps that were not lost, events and metrics agree.
    let rows = workspace.text("run/metrics.csv");
    let counting = parsed(&before).into_iter().filter(|event| event["step"].as_u64().unwrap() <= from);
    let counting: Vec<Value> = counting.chain(after).collect();
    let losses = named(&counting, "step");
    assert_eq!(losses.len() as u64, steps);
    for (event, row) in losses.iter().zip(rows.lines().skip(2)) {
        let loss: f64 = row.split(',').nth(1).unwrap().parse().unwrap();
        assert_eq!(event["training_loss"].as_f64().unwrap(), loss);
    }
}

#[test]
fn a_failure_is_the_last_event() {
    let workspace = Workspace::new();
    let failed = workspace.run(&format!("{TRAIN} --lr 1e18 --warmup 0 --clip 0 --json"));
    assert_eq!(failed.code, Some(1));
    let events = events(&workspace);
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["reason"]), (&"ended".into(), &"failed".into()));
    let message = last["message"].as_str().unwrap();
    assert!(failed.stderr.starts_with(&format!("error: {message}\n")), "{}", failed.stderr);
    assert_eq!(parsed(&failed.stdout), events);
}
