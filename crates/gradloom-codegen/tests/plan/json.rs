//! Tests of the plan as JSON: accesses, phases, roles and hoisted launches.

use crate::{graph, plan_of};

/// Graph with a window of a frozen parameter, a hoisted table, an update, an output and a guard.
const STEP: &str = "%0: f32[4, 6] = param \"table\"\n%1: f32[2, 3] = state \"s\" {init=0.0}\n%2: f32[2, 3] = input \"x\"\n\
    %3: f32[2, 3] = slice %0 {start=[1, 0], limit=[4, 6], step=[2, 2]}\n%4: f32[2, 3] = iota {axis=1}\n\
    %5: f32[2, 3] = sin %4\n%6: f32[2, 3] = mul %3, %5\n%7: f32[2, 3] = sub %1, %2\n%8: f32[] = sum %6 {axes=[0, 1]}\n\
    output \"y\" %6\nguard \"sum\" %8\nupdate %1 <- %7";

#[track_caller]
fn contains(json: &str, parts: &[&str]) {
    for part in parts {
        assert!(json.contains(part), "{part} is not in\n{json}");
    }
}

#[test]
fn accesses_say_where_they_start_and_how_they_go_on_unless_that_is_natural() {
    let graph = graph(STEP);
    let json = plan_of(&graph).to_json(&graph);
    contains(&json, &[r#""buffer":0,"shape":[2,3],"start":6,"strides":[12,2]}"#, r#""shape":[2,3]}"#]);
}

#[test]
fn launches_say_when_they_run() {
    let graph = graph(STEP);
    let json = plan_of(&graph).to_json(&graph);
    contains(
        &json,
        &[
            r#""first_commit":2,"#,
            r#""kernel":"map","phase":"compute","op":"mul","#,
            r#""kernel":"reduce","phase":"compute","op":"sum","#,
            r#""kernel":"map","phase":"commit","op":"sub","#,
            r#""hoisted":[{"kernel":"map","op":"sin","reads":[{"#,
            r#""guards":[{"name":"sum","access":{"#,
            r#""outputs":[{"name":"y","access":{"#,
        ],
    );
}

#[test]
fn buffers_say_what_they_are_and_where() {
    let graph = graph(STEP);
    let plan = plan_of(&graph);
    let json = plan.to_json(&graph);
    for (value, role, region) in [
        (0, "frozen", "store"),
        (1, "state", "store"),
        (2, "input", "step"),
        (4, "constant", "constants"),
        (5, "hoisted", "constants"),
        (6, "output", "step"),
        (7, "next", "store"),
        (8, "temporary", "step"),
    ] {
        let start =
            json.find(&format!("{{\"value\":\"%{value}\",")).unwrap_or_else(|| panic!("%{value} in\n{json}"));
        let buffer = &json[start..start + json[start..].find('}').unwrap()];
        contains(buffer, &[&format!(r#""role":"{role}","region":"{region}","dtype":"f32""#)]);
    }
    let updated = STEP.replace("update %1 <- %7", "update %0 <- %0\nupdate %1 <- %7");
    let updated = crate::graph(&updated);
    contains(&plan_of(&updated).to_json(&updated), &[r#""role":"parameter","region":"store""#]);
}
