//! Tests that damaged files of runs and of configurations cause an error or a correct load, no panic, and no
//! allocation out of proportion to the file.
//!
//! `GRADLOOM_MUTATIONS=N` tries N of each kind instead of 10,000.

use crate::model;
use crate::run::{MODEL, RunFolder, STATE, Saved, Snapshot};
use crate::train::config_file;
use crate::train::options::Options;
use crate::train::settings::Settings;
use gradloom::CpuDevice as _;
use gradloom::Device;
use gradloom::runtime::files::{TensorBytes, write};
use gradloom_testing::Random;
use gradloom_testing::memory::{Counting, measured};
use gradloom_testing::mutate::mutated;
use std::fs;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn rounds() -> usize {
    std::env::var("GRADLOOM_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}

fn small() -> Options {
    Options {
        layers: Some(1),
        heads: Some(2),
        width: Some(8),
        context: Some(8),
        batch: Some(1),
        steps: Some(9),
        threads: Some(1),
        weight_decay: Some(0.25),
        data: Some(vec!["text.txt".to_string(), "more/*.txt".to_string()]),
        ..Options::default()
    }
}

/// Runs a function that reads a file, and asserts that its largest allocation is at most four times the file
/// or 16 KiB, and that all allocations together are at most 16 times the file plus 16 KiB.
#[track_caller]
fn bounded<T>(file: &[u8], read: impl FnOnce() -> T) -> T {
    let (result, taken) = measured(read);
    let is_bounded =
        taken.largest <= (4 * file.len()).max(16 << 10) && taken.most <= 16 * file.len() + (16 << 10);
    assert!(is_bounded, "{taken:?} for a file of {}: {}", file.len(), String::from_utf8_lossy(file));
    result
}

#[test]
fn damaged_checkpoints() {
    let settings = Settings::resolve(&small()).unwrap();
    let smaller = model::Smaller { step: "", budgeted: "" };
    let mut train = model::compile(&settings, &Device::cpu_with_threads(1).unwrap(), smaller).unwrap();
    train.step((&[1i32; 8], &[2i32; 8])).unwrap().loss().unwrap();
    let (keep, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = RunFolder::create(Some(keep.path()), "tiny").unwrap();
    let store = train.store();
    let snapshot = Snapshot::of(&store, 1).unwrap();
    snapshot.write_state(folder.path(), &settings).unwrap();
    snapshot.write_model(&folder, &settings).unwrap();
    let contents = store.read_all().unwrap();

    let mut random = Random(5);
    let (mut loaded, mut refused) = (0, 0);
    for round in 0..rounds() {
        let name = [STATE, MODEL][round / 2 % 2];
        let path = elsewhere.path().join(name);
        // Remove the file first, because replacing an existing file would flush it to the disk each time.
        let _ = fs::remove_file(&path);
        // Give every sixteenth file a valid checksum, by damaging its configuration and step before it is
        // written.
        if round % 16 == 0 {
            let tensors = contents.iter().filter(|(entry, _)| name == STATE || entry.init.is_none());
            let tensors: Vec<_> = tensors
                .map(|(entry, bytes)| TensorBytes { name: &entry.name, ty: &entry.ty, bytes })
                .collect();
            let config = mutated(settings.to_json().as_bytes(), usize::MAX, &mut random);
            let step = mutated(b"1234567", 7, &mut random);
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            let entries = [("config".to_string(), text(config)), ("step".to_string(), text(step))].into();
            write(&path, &tensors, &entries).unwrap();
        } else {
            let sound = fs::read(folder.file(name)).unwrap();
            let header = 8 + u64::from_le_bytes(sound[..8].try_into().unwrap()) as usize;
            let reach = if round % 2 == 0 { header } else { sound.len() };
            fs::write(&path, mutated(&sound, reach, &mut random)).unwrap();
        }
        let load = || {
            let saved = Saved::open(&path)?;
            let restored = match name {
                STATE => saved.restore(&store),
                _ => saved.restore_parameters(&store),
            };
            restored.map(|()| saved.settings.model)
        };
        match bounded(&fs::read(&path).unwrap(), load) {
            Ok(model) => {
                let was = &settings.model;
                assert_eq!(
                    (was.layers(), was.width(), was.context()),
                    (model.layers(), model.width(), model.context())
                );
                assert!(contents == store.read_all().unwrap(), "another value was loaded");
                loaded += 1;
            }
            Err(failure) => {
                assert!(failure.message().contains(name), "{failure:?}");
                refused += 1;
            }
        }
    }
    assert!(loaded * 1000 > rounds() && refused * 2 > rounds(), "{loaded} loaded, {refused} refused");
    println!("{loaded} loaded, {refused} refused");
}

#[test]
fn damaged_configurations() {
    let json = Settings::resolve(&small()).unwrap().to_json();
    let toml = "# a run\nlayers = 1\nheads = 2\nwidth = 8\ncontext = 8\nbatch = 1\nsteps = 9\nlr = 3e-4\n\
                weight-decay = 0.25\ndata = [\"text.txt\", \"more/*.txt\"]\ndevice = \"cpu\"\ntune = false\n\
                memory-budget = \"1.5GiB\"\n";
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(6);
    let (mut read, mut refused) = (0, 0);
    for round in 0..rounds() {
        let (sound, name) = if round % 2 == 0 { (&*json, "x.json") } else { (toml, "x.toml") };
        let path = folder.path().join(name);
        let file = mutated(sound.as_bytes(), sound.len(), &mut random);
        let _ = fs::remove_file(&path);
        fs::write(&path, &file).unwrap();
        match bounded(&file, || config_file::read(&path).and_then(|options| Settings::resolve(&options))) {
            Ok(settings) => {
                // Settings that were read must be valid: written and read again, they are equal.
                assert_eq!(Settings::parse(&settings.to_json()).unwrap(), settings);
                read += 1;
            }
            Err(failure) => {
                assert!(!failure.message().is_empty() && failure.message().len() < 600, "{failure:?}");
                refused += 1;
            }
        }
    }
    assert!(read * 20 > rounds() && refused * 5 > rounds(), "{read} read, {refused} refused");
    println!("{read} read, {refused} refused");
}
