//! Tests of mutated texts of graphs in the whole compiler.
//!
//! In: a seed, texts of graphs. Out: nothing, or the first text that causes a panic, a disagreement, or a
//! timeout. A text that still parses and verifies goes through passes, fusion, lowering and the plan; a small
//! graph also runs, as machine code and interpreted. The current text is written to a file first, so that one
//! that ends the process can be found.

mod mutate;

use super::{catch, hide_caught_panics};
use crate::options::{self, Slot};
use gradloom_core::ir::{Graph, parse};
use gradloom_core::passes;
use gradloom_core::reference::evaluate;
use gradloom_core::verify::verify;
use gradloom_runtime::{Device, Program};
use gradloom_testing::compare::same_numbers;
use gradloom_testing::{Leaves, Random, generate, training_step};
use mutate::Words;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum time for a text.
const TIME: Duration = Duration::from_secs(10);
/// Maximum number of elements of a value in a graph that is run; other graphs are only planned.
const MOST_ELEMENTS: usize = 4096;
/// Maximum number of ops, after expanding blocks, of a graph that is run; other graphs are only planned.
const MOST_OPS: usize = 2000;
/// Number of threads, each with its own texts.
const WORKERS: u64 = 2;

/// Runs `cargo xtask fuzz-text`.
///
/// # Errors
/// Returns an error if a text fails.
pub(crate) fn command(arguments: &[String]) -> Result<(), String> {
    let (mut texts, mut seed, mut from) = (10_000, 1, 0);
    let (mut device, mut adapter) = ("cpu".to_string(), String::new());
    let known = &mut [
        ("--texts", Slot::Number(&mut texts)),
        ("--seed", Slot::Number(&mut seed)),
        ("--from", Slot::Number(&mut from)),
        ("--device", Slot::Text(&mut device)),
        ("--adapter", Slot::Text(&mut adapter)),
    ];
    options::read(arguments, known)?;
    let corpus = corpus(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus"))?;
    hide_caught_panics();
    let counts = Counts::default();
    let failed = Mutex::new(None);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (counts, failed, corpus) = (&counts, &failed, &corpus);
                let (device, adapter) = (device.as_str(), adapter.as_str());
                scope.spawn(move || {
                    let numbers = (from..from.saturating_add(texts)).filter(|n| n % WORKERS == worker);
                    let result = work(seed, numbers, corpus, (device, adapter), worker, counts, failed);
                    result.unwrap_or_else(|message| {
                        failed.lock().expect("no panic holds it").get_or_insert(message);
                    });
                })
            })
            .collect();
        let mut said = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(100));
            if said.elapsed() > Duration::from_secs(10) {
                println!("{counts}; {:.0} s", start.elapsed().as_secs_f64());
                said = Instant::now();
            }
        }
    });
    println!("seed {seed}: {counts}; {:.0} s", start.elapsed().as_secs_f64());
    failed.into_inner().expect("no panic holds it").map_or(Ok(()), Err)
}

/// Numbers of texts by outcome.
#[derive(Default)]
struct Counts {
    texts: AtomicU64,
    graphs: AtomicU64,
    verified: AtomicU64,
    loaded: AtomicU64,
    run: AtomicU64,
    slowest_ms: AtomicU64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [texts, graphs, verified, loaded, run, slowest] =
            [&self.texts, &self.graphs, &self.verified, &self.loaded, &self.run, &self.slowest_ms]
                .map(|count| count.load(Relaxed));
        write!(
            f,
            "{texts} texts: {graphs} are graphs, {verified} of them verify, {loaded} compile, {run} were \
             run; the slowest took {slowest} ms"
        )
    }
}

/// Returns the texts of a folder, sorted by name.
///
/// # Errors
/// Returns an error if the texts cannot be read, or if the folder contains none.
fn corpus(folder: &Path) -> Result<Vec<Words>, String> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{}: no texts", folder.display()));
    }
    paths.iter().map(|path| Ok(Words::of(&read(path)?))).collect()
}

fn work(
    seed: u64,
    numbers: impl Iterator<Item = u64>,
    corpus: &[Words],
    (device, adapter): (&str, &str),
    worker: u64,
    counts: &Counts,
    failed: &Mutex<Option<String>>,
) -> Result<(), String> {
    let mut devices = options::devices(device, adapter)?;
    let present =
        std::env::temp_dir().join(format!("gradloom-fuzz-text-{}-{worker}.txt", std::process::id()));
    for number in numbers {
        if failed.lock().expect("no panic holds it").is_some() {
            break;
        }
        let mut random = Random::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(number << 32));
        let text = drawn(&mut random, corpus).mutated(&mut random, corpus);
        // The file remains if the text ends the process.
        std::fs::write(&present, &text).map_err(|error| format!("{}: {error}", present.display()))?;
        let start = Instant::now();
        let checked = catch(|| check(&text, number, &devices, counts));
        let again =
            || format!("again with: cargo xtask fuzz-text --seed {seed} --from {number} --texts 1\n{text}");
        checked
            .unwrap_or_else(|panic| Err(format!("a panic: {panic}")))
            .map_err(|what| format!("{what}\n{}", again()))?;
        let time = start.elapsed();
        if time > TIME {
            return Err(format!("it took {:.1} s\n{}", time.as_secs_f64(), again()));
        }
        counts.slowest_ms.fetch_max(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Relaxed);
        counts.texts.fetch_add(1, Relaxed);
        // Open a GPU again now and then, because it keeps the kernels of all programs.
        if device == "wgpu" && (number + 1).is_multiple_of(500) {
            devices = options::devices(device, adapter)?;
        }
    }
    let _ = std::fs::remove_file(&present);
    Ok(())
}

/// Draws a text to mutate: from the corpus, or of a random graph.
fn drawn(random: &mut Random, corpus: &[Words]) -> Words {
    match random.below(4) {
        0 => Words::of(&generate(random.next() % 5_000).to_string()),
        1 => Words::of(&training_step(random.next() % 5_000).graph.to_string()),
        _ => corpus[random.below(corpus.len())].clone(),
    }
}

fn check(text: &str, number: u64, devices: &[(&str, Device)], counts: &Counts) -> Result<(), String> {
    let Ok(graph) = parse(text) else { return Ok(()) };
    counts.graphs.fetch_add(1, Relaxed);
    let printed = graph.to_string();
    let again =
        parse(&printed).map_err(|error| format!("what was printed cannot be read: {error}\n{printed}"))?;
    if again.to_string() != printed {
        return Err(format!("what was printed reads otherwise:\n{printed}"));
    }
    if verify(&graph).is_err() {
        return Ok(());
    }
    counts.verified.fetch_add(1, Relaxed);
    let (passed, _) = passes::run(graph.clone());
    verify(&passed).map_err(|error| format!("after the passes: {error}"))?;
    if !is_small(&graph) || !is_small(&passed) {
        // Only plan a graph that is too large to run.
        let planned = Program::standalone(passed, &Device::null(), &|_| None);
        counts.loaded.fetch_add(u64::from(planned.is_ok()), Relaxed);
        return Ok(());
    }
    let leaves = Leaves::random(number);
    let _ = evaluate(&graph, &|kind| leaves.value(kind));
    let run = |device: &Device| {
        let mut program = Program::standalone(passed.clone(), device, &|kind| leaves.value(kind)).ok()?;
        counts.loaded.fetch_add(1, Relaxed);
        Some(program.evaluate(&|kind| leaves.value(kind)))
    };
    match devices {
        [(_, native), (_, interpreted)] => match (run(native), run(interpreted)) {
            (Some(Ok(native)), Some(Ok(interpreted))) => {
                counts.run.fetch_add(1, Relaxed);
                same_numbers(&native, &interpreted).map_err(|what| format!("machine code: {what}"))?;
            }
            (Some(Err(a)), Some(Err(b))) if a.to_string() == b.to_string() => {
                counts.run.fetch_add(1, Relaxed);
            }
            (None, None) => {}
            (a, b) => {
                let error = |run: Option<gradloom_core::error::Result<_>>| {
                    run.map(|result| result.err().map(|e| e.to_string()))
                };
                return Err(format!(
                    "machine code ends with {:?}, interpreted loops with {:?}",
                    error(a),
                    error(b)
                ));
            }
        },
        _ => {
            let ran = devices.iter().filter_map(|(_, device)| run(device)).count();
            counts.run.fetch_add(ran as u64, Relaxed);
        }
    }
    Ok(())
}

/// Returns `true` if a graph runs in negligible time, even if its unused ops run.
fn is_small(graph: &Graph) -> bool {
    if graph.values.iter().any(|(_, value)| value.ty.elements() > MOST_ELEMENTS) {
        return false;
    }
    let mut expanded = graph.clone();
    gradloom_core::grad::expand_blocks(&mut expanded);
    expanded.entry_ops().count() <= MOST_OPS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(seed: u64, numbers: std::ops::Range<u64>) -> Counts {
        let corpus = corpus(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus")).unwrap();
        let counts = Counts::default();
        work(seed, numbers, &corpus, ("cpu", ""), 0, &counts, &Mutex::new(None)).unwrap();
        counts
    }

    #[test]
    fn the_corpus_runs() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus");
        let devices = options::devices("cpu", "").unwrap();
        for (number, entry) in std::fs::read_dir(folder).unwrap().enumerate() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            check(&text, number as u64, &devices, &Counts::default())
                .unwrap_or_else(|what| panic!("{}: {what}", path.display()));
        }
    }

    #[test]
    fn two_thousand_mutated_texts_do_no_harm() {
        let counts = texts(0, 0..2_000);
        let of = |count: &AtomicU64| count.load(Relaxed);
        assert_eq!(of(&counts.texts), 2_000);
        // Some texts must pass the early stages, or nothing was tested.
        assert!(of(&counts.verified) > 200 && of(&counts.run) > 150, "{counts}");
        assert!(of(&counts.verified) < 1_900, "{counts}");
    }
}
