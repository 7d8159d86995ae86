//! Mutation testing: does a test fail when the code is changed?
//!
//! In: a seed and a size of the sample. Out: how many of the sampled changes some test catches, and those that none does. Works on a copy
//! of the tree in which every sampled change is compiled in, each behind a switch that an environment variable turns on
//! (`instrument`): so all are built once, and each costs a run of the tests, up to the first that fails.

mod instrument;
mod run;
mod source;

use crate::options;
use gradloom_testing::Random;
use source::Mutation;
use std::path::{Path, PathBuf};

/// What is changed.
const SOURCES: [&str; 5] = [
    "crates/gradloom-core/src/grad",
    "crates/gradloom-core/src/passes",
    "crates/gradloom-core/src/fuse",
    "crates/gradloom-core/src/plan",
    "crates/gradloom-codegen/src/cpu/lower.rs",
];

/// `cargo xtask mutants`.
///
/// # Errors
/// When the tree cannot be copied or built, or tests fail without any change.
pub(crate) fn command(arguments: &[String]) -> Result<(), String> {
    let (mut sample, mut seed) = (150, 1);
    options::read(arguments, &mut [("--sample", &mut sample), ("--seed", &mut seed)])?;
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let scratch = root.join("target/mutants");
    let mut all = Vec::new();
    for file in SOURCES.iter().flat_map(|source| files(&root, Path::new(source))) {
        let text = std::fs::read_to_string(root.join(&file)).map_err(|error| error.to_string())?;
        all.extend(source::mutations(&file, &text));
    }
    println!("{} possible changes in {}", all.len(), SOURCES.join(", "));
    let mut random = Random::new(seed);
    let drawn: Vec<Mutation> = random.order(all.len()).into_iter().map(|at| all[at].clone()).collect();
    let mutants = instrument::build(&root, &scratch, &drawn, sample as usize)?;
    let survivors = run::run(&scratch, &mutants)?;
    let caught = mutants.len() - survivors.len();
    println!(
        "\nseed {seed}: {caught} of {} changes are caught ({:.1}%); the others:",
        mutants.len(),
        100.0 * caught as f64 / mutants.len().max(1) as f64
    );
    for number in survivors {
        println!("\n{}", mutants[number]);
    }
    Ok(())
}

/// The Rust files in a folder, without tests, in a fixed order.
fn files(root: &Path, path: &Path) -> Vec<PathBuf> {
    if root.join(path).is_file() {
        let is_source = path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs");
        return if is_source { vec![path.to_path_buf()] } else { Vec::new() };
    }
    let entries = std::fs::read_dir(root.join(path)).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| path.join(entry.file_name())).collect();
    names.sort();
    names.retain(|name| !name.ends_with("tests"));
    names.iter().flat_map(|name| files(root, name)).collect()
}
