//! A copy of the tree with changes compiled in, each behind a switch.
//!
//! In: changes in the order in which they are wanted. Out: the first of them that compile. A function with
//! changes gets one body for each and the original one:
//! `if active(1) { .. } else if active(2) { .. } else { .. }`.

use super::source::{Mutation, line_of};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set to the number of the change, from 1, that is to be active.
pub(super) const SWITCH: &str = "GRADLOOM_MUTANT";

const MODULE: &str = r#"
#[doc(hidden)]
pub mod mutant {
    pub fn active(number: usize) -> bool {
        static ACTIVE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        let read = || std::env::var("GRADLOOM_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
        *ACTIVE.get_or_init(read) == number
    }
}
"#;

/// Lines of an instrumented file that belong to a change; the original body belongs to all of its function's.
type Lines = Vec<(Range<usize>, Vec<usize>)>;

/// Writes the copy with as many changes as wanted; gives them in the order of their numbers.
///
/// # Errors
/// When files cannot be copied, or the copy does not compile for another reason than a change.
pub(super) fn build(
    root: &Path,
    scratch: &Path,
    drawn: &[Mutation],
    wanted: usize,
) -> Result<Vec<Mutation>, String> {
    let tree = scratch.join("tree");
    copy_tree(root, &tree)?;
    // Some do not compile: they are left out, and the next ones take their places.
    let mut broken: BTreeSet<usize> = BTreeSet::new();
    loop {
        let chosen: Vec<usize> = (0..drawn.len()).filter(|at| !broken.contains(at)).take(wanted).collect();
        let lines = write(root, &tree, drawn, &chosen)?;
        let errors = errors(scratch, &tree)?;
        if errors.is_empty() {
            return Ok(chosen.into_iter().map(|at| drawn[at].clone()).collect());
        }
        let before = broken.len();
        for (file, line) in &errors {
            let hits = lines.get(file).into_iter().flatten().filter(|(range, _)| range.contains(line));
            broken.extend(hits.flat_map(|(_, numbers)| numbers));
        }
        if broken.len() == before {
            return Err(format!("the copy does not compile: {errors:?}"));
        }
        println!("{} changes do not compile so far", broken.len());
    }
}

/// Copies what git knows; files that are the same keep their times, so that little is built again.
fn copy_tree(root: &Path, tree: &Path) -> Result<(), String> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    for name in String::from_utf8_lossy(&list.stdout).lines().filter(|name| root.join(name).is_file()) {
        let bytes = std::fs::read(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
        write_changed(&tree.join(name), &bytes)?;
    }
    Ok(())
}

fn write_changed(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        std::fs::write(path, bytes)
    };
    write().map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes all files that some drawn change is in.
fn write(
    root: &Path,
    tree: &Path,
    drawn: &[Mutation],
    chosen: &[usize],
) -> Result<BTreeMap<PathBuf, Lines>, String> {
    let files: BTreeSet<&PathBuf> = drawn.iter().map(|mutation| &mutation.file).collect();
    let mut all = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(root.join(file)).map_err(|error| error.to_string())?;
        let here = chosen.iter().enumerate().filter(|&(_, &at)| drawn[at].file == *file);
        let mut functions: BTreeMap<(usize, usize), Vec<(usize, usize)>> = BTreeMap::new();
        for (number, &at) in here {
            let body = &drawn[at].body;
            functions.entry((body.start, body.end)).or_default().push((number + 1, at));
        }
        let home = if file.starts_with("crates/gradloom-core") { "crate" } else { "gradloom_core" };
        let mut lines = Lines::new();
        let mut written = String::new();
        let mut end = 0;
        for ((from, to), changes) in functions {
            written += &text[end..from];
            for &(number, at) in &changes {
                let Mutation { at: place, by, .. } = &drawn[at];
                let first = line_of(&written, written.len());
                written += &format!(" if {home}::mutant::active({number}) {{");
                written += &format!("{}{by}{}\n", &text[from..place.start], &text[place.end..to]);
                written += "} else";
                lines.push((first..line_of(&written, written.len()) + 1, vec![at]));
            }
            let first = line_of(&written, written.len());
            written += &format!(" {{{}}}\n", &text[from..to]);
            let of_all = changes.iter().map(|&(_, at)| at).collect();
            lines.push((first..line_of(&written, written.len()) + 1, of_all));
            end = to;
        }
        written += &text[end..];
        write_changed(&tree.join(file), written.as_bytes())?;
        all.insert(file.clone(), lines);
    }
    let library = Path::new("crates/gradloom-core/src/lib.rs");
    let text = std::fs::read_to_string(root.join(library)).map_err(|error| error.to_string())?;
    write_changed(&tree.join(library), (text + MODULE).as_bytes())?;
    Ok(all)
}

/// The places of the compiler's errors.
fn errors(scratch: &Path, tree: &Path) -> Result<Vec<(PathBuf, usize)>, String> {
    let output = Command::new("cargo")
        .args(["check", "--package", "gradloom-codegen", "--message-format", "short"])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", scratch.join("build"))
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // As `crates/gradloom-core/src/plan/mod.rs:12:5: error[E0308]: mismatched types`.
    let place = |line: &str| -> Option<(PathBuf, usize)> {
        let (place, _) = line.split_once(": error")?;
        let mut parts = place.split(':');
        Some((parts.next()?.into(), parts.next()?.parse().ok()?))
    };
    let errors: Vec<_> = text.lines().filter_map(place).collect();
    if errors.is_empty() && !output.status.success() {
        return Err(format!("the copy does not compile:\n{text}"));
    }
    Ok(errors)
}
