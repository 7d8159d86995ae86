//! Comparison of plans with the reviewed files `tests/files/plan/*.txt`.
//!
//! A file consists of a graph, a line `---`, and the report of the plan.
//! `UPDATE=1 cargo test -p gradloom-codegen` rewrites the reports of all files.

use crate::plan_of;
use gradloom_core::ir::parse;
use std::path::Path;

#[test]
fn plans_are_as_reviewed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/files/plan");
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let source = text.split("\n---\n").next().unwrap();
        let lines: Vec<_> = source.lines().filter(|line| !line.starts_with('#')).collect();
        let graph = parse(&lines.join("\n")).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
        gradloom_core::verify::verify(&graph).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let report = plan_of(&graph).report(&graph);
        let report: Vec<_> = report.lines().map(str::trim_end).collect();
        let wanted = format!("{}\n---\n{}\n", source.trim_end(), report.join("\n"));
        if update {
            std::fs::write(&path, wanted).unwrap();
        } else {
            assert!(text == wanted, "{} has changed; look at it with UPDATE=1\n{wanted}", path.display());
        }
    }
}
