//! Writes the last steps in Chrome's Trace Event Format, which Perfetto also reads:
//! <https://ui.perfetto.dev>.
//!
//! One track has a slice for each step, which contains a slice for each launch. The gaps are time on the
//! host.

use super::collect::{Profile, TracedStep};
use gradloom_device::spans::LaunchSpan;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(super) fn json(profile: &Profile) -> String {
    let name = format!("gradloom {}", profile.name);
    let mut events = vec![
        json!({ "ph": "M", "pid": 1, "tid": 1, "name": "process_name", "args": { "name": name } }),
        json!({ "ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": { "name": profile.device } }),
    ];
    if let Some(first) = profile.traced.first() {
        for (i, step) in profile.traced.iter().enumerate() {
            events.push(slice(&format!("step {i}"), "step", first.began, (step.began, step.took), json!({})));
            events.extend(step.spans.iter().map(|span| launch(profile, first, span)));
        }
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events }).to_string()
}

fn launch(profile: &Profile, first: &TracedStep, span: &LaunchSpan) -> Value {
    let launch = &profile.launches[span.launch];
    let arguments = json!({
        "launch": span.launch,
        "name": launch.name,
        "op": launch.op,
        "place": launch.place,
        "flops": launch.cost.flops,
        "bytes_read": launch.cost.bytes_read,
        "bytes_written": launch.cost.bytes_written,
        "bound_us": launch.bound.map(|bound| bound * 1e6),
    });
    let category = if launch.commits { "commit" } else { "compute" };
    slice(launch.kernel, category, first.began, (span.began, span.took), arguments)
}

/// Creates a complete event; times are in microseconds since `zero`.
fn slice(
    name: &str,
    category: &str,
    zero: Instant,
    (began, took): (Instant, Duration),
    arguments: Value,
) -> Value {
    let us = |duration: Duration| duration.as_nanos() as f64 / 1e3;
    json!({
        "ph": "X", "pid": 1, "tid": 1, "name": name, "cat": category,
        "ts": us(began.saturating_duration_since(zero)), "dur": us(took), "args": arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_lie_inside_their_steps() {
        let zero = Instant::now();
        let us = Duration::from_micros;
        let span = |launch, at| LaunchSpan { launch, began: zero + us(at), took: us(2) };
        let mut profile = super::super::report::tests::profile();
        profile.traced = vec![
            TracedStep { began: zero, took: us(10), spans: vec![span(0, 1), span(1, 5)] },
            TracedStep { began: zero + us(20), took: us(9), spans: vec![span(2, 21)] },
        ];
        let trace: Value = serde_json::from_str(&json(&profile)).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let slices: Vec<(&str, f64, f64)> = events
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|e| (e["name"].as_str().unwrap(), e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap()))
            .collect();
        let expected = [
            ("step 0", 0.0, 10.0),
            ("map", 1.0, 2.0),
            ("copy", 5.0, 2.0),
            ("step 1", 20.0, 9.0),
            ("map", 21.0, 2.0),
        ];
        assert_eq!(slices, expected);
        assert_eq!(events[4]["cat"], "commit");
        assert_eq!(events[3]["args"]["place"], "src/a.rs:1:2");
    }
}
