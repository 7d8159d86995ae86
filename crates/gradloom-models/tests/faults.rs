//! Injects a fault into every operation of a device in turn: the allocations, launches and reads of a
//! training step and of cached generation.

#[path = "common/decoder.rs"]
mod decoder;

use decoder::Decoder;
use gradloom::CpuDevice as _;
use gradloom_core::error::{Error, ErrorKind};
use gradloom_core::ir::DType;
use gradloom_core::kernel::Kernel;
use gradloom_core::nn::State;
use gradloom_core::optim::AdamW;
use gradloom_core::plan::Plan;
use gradloom_core::trace::i32;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_runtime::files::{Entries, TensorBytes, Weights, write};
use gradloom_runtime::{Device, Fault, Faults, Session, Store, Train, Trainer};
use std::path::Path;

const FAULT: &str = "the fault was asked for with `Faults::fail`";

/// Name and contents of every parameter and state.
type Content = Vec<(String, Vec<u8>)>;

fn content(store: &Store) -> Content {
    let entries = store.entries().into_iter();
    entries.map(|entry| (entry.name.clone(), store.read(&entry.name).unwrap())).collect()
}

fn restore(store: &Store, content: &Content) {
    let entries = store.entries();
    let all: Vec<_> =
        entries.iter().zip(content).map(|(e, (name, bytes))| (name.as_str(), &e.ty, &bytes[..])).collect();
    store.write_all(&all).unwrap();
}

fn model() -> Gpt2 {
    let config = Gpt2Config {
        vocabulary: 11,
        context: 6,
        width: 8,
        heads: 2,
        layers: 1,
        dropout: 0.2,
        ..Gpt2Config::default()
    };
    Gpt2::new(&config).unwrap()
}

/// Returns the number of reads that running a program takes: its outputs, its guards, and the offsets of the
/// windows that it updates.
fn reads(plan: &Plan) -> u64 {
    let windows = plan.launches.iter().any(|launch| launch.kernel == Kernel::WriteRegion);
    plan.outputs.len() as u64 + u64::from(!plan.guards.is_empty()) + u64::from(windows)
}

fn names_the_launch(error: &Error, plan: &Plan, launch: usize) {
    let expected = format!("launch {launch} (`{}`) failed", plan.launches[launch].kernel.name());
    assert!(error.to_string().contains(&expected), "{error}");
}

/// Compiles a training step with AdamW, clipping, dropout, and a user-defined state that counts the batches.
fn train(device: &Device) -> Result<Train<Gpt2, 2>, Error> {
    Trainer::new(model())
        .seed(5)
        .inputs([i32("ids", [2, 6]), i32("targets", [2, 6])])
        .loss(|m, [ids, targets]| {
            let seen = State::new([], DType::U32, 0.0).named("seen");
            seen.set(seen.tensor() + 1);
            m.loss(ids, targets)
        })
        .optimizer(AdamW::new(1e-2).weight_decay(0.1))
        .clip_norm(0.5)
        .compile(device)
}

const IDS: [i32; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1];
const TARGETS: [i32; 12] = [2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2];

fn step(train: &mut Train<Gpt2, 2>) -> Result<f32, Error> {
    train.step((&IDS, &TARGETS))?.loss()
}

/// Result of a step without faults and with nonzero moments: the contents before and after it, and the bits
/// of its loss.
struct Undisturbed {
    before: Content,
    after: Content,
    loss: u32,
}

impl Undisturbed {
    fn of(train: &mut Train<Gpt2, 2>) -> Self {
        step(train).unwrap();
        let before = content(&train.store());
        let loss = step(train).unwrap().to_bits();
        let after = content(&train.store());
        restore(&train.store(), &before);
        train.set_attempted_steps(1);
        let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        assert_eq!(changed, before.len(), "the step updates everything");
        Self { before, after, loss }
    }

    /// Checks that a fault before the commit has changed nothing, and that the next step succeeds with the
    /// same results as without the fault.
    fn goes_on(&self, train: &mut Train<Gpt2, 2>) {
        assert!(!train.store().is_lost());
        assert_eq!(content(&train.store()), self.before);
        assert_eq!((train.attempted_steps(), train.applied_steps().unwrap()), (1, 1));
        assert_eq!(step(train).unwrap().to_bits(), self.loss);
        assert_eq!(content(&train.store()), self.after);
        self.begin_again(train);
    }

    fn begin_again(&self, train: &mut Train<Gpt2, 2>) {
        restore(&train.store(), &self.before);
        train.set_attempted_steps(1);
    }
}

#[test]
fn each_launch_of_a_training_step_can_fail() {
    let (device, faults) = Device::cpu().with_faults();
    let mut train = train(&device).unwrap();
    let undisturbed = Undisturbed::of(&mut train);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("step.safetensors");
    save(&train.store(), &file);

    let plan = train.plan().clone();
    let (launches, commit) = (plan.launches.len(), plan.first_commit());
    assert!(commit > 10 && commit < launches, "{commit} of {launches}");
    let start = faults.count(Fault::Launch);
    step(&mut train).unwrap();
    assert_eq!(faults.count(Fault::Launch) - start, launches as u64);
    undisturbed.begin_again(&mut train);

    for launch in 0..launches {
        faults.fail(Fault::Launch, launch as u64);
        let error = step(&mut train).unwrap_err();
        assert!(!faults.is_armed());
        names_the_launch(&error, &plan, launch);
        if launch < commit {
            assert_eq!(error.kind(), ErrorKind::Device);
            assert!(error.to_string().contains(FAULT), "{error}");
            undisturbed.goes_on(&mut train);
            continue;
        }
        assert_eq!(error.kind(), ErrorKind::Lost);
        assert!(train.store().is_lost());
        assert_eq!(train.attempted_steps(), 1);
        // The store remains lost until a checkpoint is loaded.
        for _ in 0..2 {
            assert_eq!(step(&mut train).unwrap_err().kind(), ErrorKind::Lost);
        }
        load(&train.store(), &file);
        undisturbed.goes_on(&mut train);
    }
}

fn save(store: &Store, file: &Path) {
    let (entries, content) = (store.entries(), content(store));
    let tensors: Vec<_> = entries
        .iter()
        .zip(&content)
        .map(|(entry, (name, bytes))| TensorBytes { name, ty: &entry.ty, bytes })
        .collect();
    write(file, &tensors, &Entries::new()).unwrap();
}

fn load(store: &Store, file: &Path) {
    let entries = store.entries();
    let checkpoint = Weights::open(file).unwrap();
    let tensors = checkpoint.exactly(entries.iter().map(|e| (e.name.as_str(), &e.ty))).unwrap();
    store.write_all(&tensors).unwrap();
}

#[test]
fn each_read_of_a_training_step_can_fail() {
    let (device, faults) = Device::cpu().with_faults();
    let mut train = train(&device).unwrap();
    let undisturbed = Undisturbed::of(&mut train);
    let reads = reads(train.plan());
    assert!(reads >= 3, "loss, gradient norm, guards: {reads}");
    let start = faults.count(Fault::Read);
    step(&mut train).unwrap();
    assert_eq!(faults.count(Fault::Read) - start, reads);
    undisturbed.begin_again(&mut train);

    let outputs: Vec<String> = train.plan().outputs.iter().map(|(name, _)| format!("`{name}`")).collect();
    for read in 0..reads {
        faults.fail(Fault::Read, read);
        let error = step(&mut train).unwrap_err();
        assert!(!faults.is_armed());
        assert_eq!(error.kind(), ErrorKind::Device);
        let what = outputs.get(read as usize).map_or("the guards", |name| name);
        assert_eq!(error.message(), format!("reading {what} failed"));
        undisturbed.goes_on(&mut train);
    }
}

#[test]
fn each_allocation_of_a_training_step_can_fail() {
    let (device, faults) = Device::cpu().with_faults();
    let allocations = |faults: &Faults| faults.count(Fault::Allocation);
    let whole = train(&device).unwrap();
    let needed = allocations(&faults);
    let totals = whole.plan().totals;
    let sizes = [
        (totals.store, "parameters and states"),
        (totals.step, "temporaries"),
        (totals.constants, "constants"),
        (totals.workspace, "scratch"),
    ];
    assert_eq!(needed, sizes.len() as u64);
    for (allocation, (bytes, what)) in sizes.iter().enumerate() {
        faults.fail(Fault::Allocation, allocation as u64);
        let error = train(&device).unwrap_err();
        assert!(!faults.is_armed());
        assert_eq!(error.kind(), ErrorKind::Device);
        assert_eq!(error.message(), format!("no memory for {bytes} bytes of {what}"));
    }
    assert!(train(&device).is_ok());
}

/// Loading a second program into a store either adds all of its states or none.
#[test]
fn a_load_that_fails_leaves_the_store_as_it_was() {
    let (device, faults) = Device::cpu().with_faults();
    let session = Session::new(model(), &device, 5).unwrap();
    let mut decoder = Decoder::new(&session, "one").unwrap();
    decoder.feed(&[1, 2, 3]).unwrap();
    let (before, version) = (content(&session.store()), session.store().version());
    let start = faults.count(Fault::Allocation);
    let second = Session::new(model(), &device, 5).unwrap();
    drop(Decoder::new(&second, "one").unwrap());
    let needed = faults.count(Fault::Allocation) - start;
    assert_eq!(needed, 4, "the store, temporaries, constants, scratch");
    for allocation in 0..needed {
        faults.fail(Fault::Allocation, allocation);
        let Err(error) = Decoder::new(&session, "two") else { panic!("an allocation fails") };
        assert!(!faults.is_armed());
        assert!(error.message().starts_with("no memory for "), "{error}");
        assert_eq!((content(&session.store()), session.store().version()), (before.clone(), version));
    }
    Decoder::new(&session, "two").unwrap();
    let grown = content(&session.store());
    assert!(grown.len() > before.len() && grown.starts_with(&before));
}

#[test]
fn each_launch_and_read_of_cached_generation_can_fail() {
    let (device, faults) = Device::cpu().with_faults();
    let session = Session::new(model(), &device, 5).unwrap();
    let store = session.store();
    let mut decoder = Decoder::new(&session, "text").unwrap();
    decoder.feed(&[3, 1, 4]).unwrap();
    let before = content(&store);
    let starts = (faults.count(Fault::Launch), faults.count(Fault::Read));
    let logits = decoder.feed(&[1]).unwrap();
    let after = content(&store);
    let plan = decoder.plan().clone();
    let (launches, reads) = (plan.launches.len() as u64, reads(&plan));
    assert_eq!(faults.count(Fault::Launch) - starts.0, launches);
    assert_eq!(faults.count(Fault::Read) - starts.1, reads);
    assert_eq!(reads, 2, "the logits, and where the new keys and values go");
    restore(&store, &before);

    let all = (0..launches).map(|i| (Fault::Launch, i)).chain((0..reads).map(|i| (Fault::Read, i)));
    let mut lost = 0;
    for (fault, number) in all {
        faults.fail(fault, number);
        let error = decoder.feed(&[1]).unwrap_err();
        assert!(!faults.is_armed());
        if fault == Fault::Launch {
            names_the_launch(&error, &plan, number as usize);
        } else {
            assert!(error.message().starts_with("reading "), "{error}");
        }
        if fault == Fault::Launch && number as usize >= plan.first_commit() {
            assert_eq!(error.kind(), ErrorKind::Lost);
            assert_eq!(decoder.feed(&[1]).unwrap_err().kind(), ErrorKind::Lost);
            restore(&store, &before);
            lost += 1;
        } else {
            assert_eq!(error.kind(), ErrorKind::Device);
        }
        assert_eq!(content(&store), before);
        assert_eq!(decoder.length(), 3);
        assert_eq!(decoder.feed(&[1]).unwrap(), logits);
        assert_eq!(content(&store), after);
        restore(&store, &before);
    }
    assert_eq!(lost, plan.launches.len() - plan.first_commit());
    assert!(lost > 0);
}

/// The null device runs nothing but can fail too.
#[test]
fn a_device_that_only_plans_fails_on_demand_too() {
    let (device, faults) = Device::null().with_faults();
    let mut train = train(&device).unwrap();
    faults.fail(Fault::Launch, 3);
    let error = train.step((&IDS, &TARGETS)).unwrap_err();
    names_the_launch(&error, &train.plan().clone(), 3);
    faults.fail(Fault::Launch, 3);
    faults.disarm();
    assert!(train.step((&IDS, &TARGETS)).is_ok());
}
