//! Mutation testing: does a test fail when the code is changed?
//!
//! In: a seed and a size of the sample. Out: how many of the sampled changes some test catches, and those
//! that none does. Works on a copy of the tree in which every sampled change is compiled in, each behind a
//! switch that an environment variable turns on (`instrument`): so all are built once, and each costs a run
//! of the tests, up to the first that fails.

mod instrument;
mod run;
mod source;

use crate::options::{self, Slot};
use gradloom_testing::Random;
use run::Verdict;
use source::Mutation;
use std::path::{Path, PathBuf};

/// The folders and files that are changed.
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
    let (only, rest) = only(arguments)?;
    options::read(
        &rest,
        &mut [("--sample", Slot::Number(&mut sample)), ("--seed", Slot::Number(&mut seed))],
    )?;
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
    let numbers: Vec<usize> =
        (1..=mutants.len()).filter(|number| only.is_empty() || only.contains(number)).collect();
    let mut survivors = Vec::new();
    run::run(&scratch, &numbers, |number, verdict| match verdict {
        Verdict::CaughtBy(test) => println!("{number:>4} caught by {test}"),
        Verdict::Survives => {
            println!("{number:>4} NOT CAUGHT {}", mutants[number - 1]);
            survivors.push(number);
        }
    })?;
    let caught = numbers.len() - survivors.len();
    println!(
        "\nseed {seed}: {caught} of {} changes are caught ({:.1}%); the others:",
        numbers.len(),
        100.0 * caught as f64 / numbers.len().max(1) as f64
    );
    for number in survivors {
        println!("\n{number:>4} {}", mutants[number - 1]);
    }
    Ok(())
}

/// The numbers of `--only 3,17`, none for all, and the other options.
fn only(arguments: &[String]) -> Result<(Vec<usize>, Vec<String>), String> {
    let Some(at) = arguments.iter().position(|argument| argument == "--only") else {
        return Ok((Vec::new(), arguments.to_vec()));
    };
    let list = arguments.get(at + 1).map_or("", String::as_str);
    let numbers = list.split(',').map(str::parse).collect::<Result<_, _>>();
    let numbers = numbers.map_err(|_| "--only needs the numbers of changes, as in 3,17".to_string())?;
    Ok((numbers, [&arguments[..at], &arguments[at + 2..]].concat()))
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
