//! Tests of whole runs whose states are written by a thread that the tests block, observe or let fail.

use super::begin::{Run, create, resume};
use super::options::Options;
use super::saving::{Files, writer_by};
use super::steps::train;
use crate::failure::{Failure, Result};
use crate::run::{STATE, Saved, Snapshot};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Starts a run of a tiny model, whose states are written by `write`.
fn begun(
    out: &Path,
    steps: u64,
    save_every: Option<u64>,
    write: impl FnMut(&Files, &Snapshot) -> (bool, Result<()>) + Send + 'static,
) -> Run {
    let options = Options {
        layers: Some(1),
        heads: Some(2),
        width: Some(8),
        context: Some(8),
        batch: Some(1),
        dropout: Some(0.1),
        threads: Some(1),
        steps: Some(steps),
        save_every,
        out: Some(out.to_path_buf()),
        ..Options::default()
    };
    Run { writer: writer_by(write).unwrap(), ..create(&options, false).unwrap() }
}

/// Returns the number of steps in a run's `metrics.csv`.
fn steps_made(run: &Path) -> u64 {
    let rows = fs::read_to_string(run.join("metrics.csv")).unwrap();
    rows.matches('\n').count().saturating_sub(2) as u64
}

fn saved_step(run: &Path) -> u64 {
    Saved::open(&run.join(STATE)).unwrap().steps
}

#[track_caller]
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "waited a minute for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Tests that a write that does not end delays only the step whose state would be the second in memory.
#[test]
fn steps_go_on_while_a_state_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let (go, held) = mpsc::channel();
    let [begun_writes, writing] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let counters = (Arc::clone(&begun_writes), Arc::clone(&writing));
    let run = begun(&out, 59, Some(20), move |files, snapshot| {
        counters.0.fetch_add(1, SeqCst);
        assert_eq!(counters.1.fetch_add(1, SeqCst), 0, "one at a time");
        held.recv().unwrap();
        let written = files.write(snapshot);
        counters.1.fetch_sub(1, SeqCst);
        written
    });
    let training = thread::spawn(move || train(run, false));
    let counted = || (steps_made(&out), begun_writes.load(SeqCst), writing.load(SeqCst));
    wait_until("the steps up to the next saving", || counted() == (40, 1, 1));
    assert_eq!(saved_step(&out), 0);
    go.send(()).unwrap();
    // Writing step 40's state blocks too, but only the final state has to wait for it.
    wait_until("all steps", || counted() == (59, 2, 1));
    assert_eq!(saved_step(&out), 20);
    assert!(!training.is_finished(), "the last state is not saved yet");
    (0..2).for_each(|_| go.send(()).unwrap());
    training.join().unwrap().unwrap();
    assert_eq!((counted(), saved_step(&out)), ((59, 3, 0), 59));
}

/// Tests that a state written while later steps run is that of its own step.
#[test]
fn every_saved_state_leads_to_the_same_end() {
    let folder = tempfile::tempdir().unwrap();
    let (out, copies) = (folder.path().join("run"), folder.path().join("copies"));
    let to = copies.clone();
    let run = begun(&out, 30, Some(4), move |files, snapshot| {
        let written = files.write(snapshot);
        let copy = to.join(snapshot.steps.to_string());
        fs::create_dir_all(&copy).unwrap();
        for entry in fs::read_dir(files.folder.path()).unwrap().map(|entry| entry.unwrap()) {
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        written
    });
    train(run, false).unwrap();
    for step in [4, 8, 12, 16, 20, 24, 28, 30] {
        let copy = copies.join(step.to_string());
        assert_eq!(saved_step(&copy), step);
        train(resume(&copy, &Options::default(), false).unwrap(), false).unwrap();
        for name in ["config.json", "metrics.csv", "loss.svg", "model.safetensors", STATE, "sample.txt"] {
            let same = fs::read(out.join(name)).unwrap() == fs::read(copy.join(name)).unwrap();
            assert!(same, "{name} differs when it goes on from step {step}");
        }
    }
}

#[test]
fn a_state_that_cannot_be_written_ends_the_run_and_leaves_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let run = begun(&out, 1000, Some(5), move |files, snapshot| match snapshot.steps {
        10 => (false, Err(Failure::failed("the disk is full"))),
        _ => files.write(snapshot),
    });
    let failure = format!("{:?}", train(run, false).unwrap_err());
    assert!(failure.contains("saving after step 10 failed: the disk is full"), "{failure}");
    assert!(failure.contains("the state of step 5 is whole"), "{failure}");
    assert_eq!(saved_step(&out), 5);
    assert!(steps_made(&out) <= 15, "it surfaces at the next saving at the latest");
}

/// Tests that no state is due by time while one is being written, and that the last state is saved in any
/// case.
#[test]
fn by_default_the_last_state_is_saved_and_those_that_the_time_allows() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let begun_writes = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&begun_writes);
    let began = Instant::now();
    let run = begun(&out, 300, None, move |files, snapshot| {
        counter.fetch_add(1, SeqCst);
        files.write(snapshot)
    });
    train(run, false).unwrap();
    assert_eq!(saved_step(&out), 300);
    assert!(begun_writes.load(SeqCst) <= 1 + began.elapsed().as_secs() / 10);
}
