//! Graphs in `tests/files/fuse/*.txt` with their kernels, which were reviewed by hand.
//!
//! A file contains a graph, a line `---`, and the kernels. `UPDATE=1 cargo test -p gradloom-core` rewrites
//! the kernels.

use super::{fused, meaning};
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::parse;
use std::path::Path;

#[test]
fn kernels_are_as_reviewed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/files/fuse");
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
        meaning::check(&graph, 3);
        let kernels = fused(&graph, Fusion::On).print(&graph);
        let wanted = format!("{}\n---\n{kernels}", source.trim_end());
        if update {
            std::fs::write(&path, wanted).unwrap();
        } else {
            assert!(text == wanted, "{} has changed; look at it with UPDATE=1\n{wanted}", path.display());
        }
    }
}
