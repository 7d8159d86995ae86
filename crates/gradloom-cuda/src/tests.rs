//! Tests of the backend with a driver that runs nothing: the calls it makes, and its reaction to failed
//! calls.

use super::driver::Call;
use super::fake::{Fake, FakeCompiler};
use super::options::{CudaOptions, Overrides};
use crate::CudaDevice as _;
use gradloom_codegen::cuda::{REUSE_DISTANCE, ROOM_BEHIND};
use gradloom_codegen::pipeline::{Limits, Precision, Target};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::kernel::Schedule;
use gradloom_core::nn::{Dropout, Embedding, Linear};
use gradloom_core::optim::AdamW;
use gradloom_core::plan::{ALIGNMENT, StoreEntry};
use gradloom_core::trace::{Tensor, f32, i32};
use gradloom_device::communicator::Communicator;
use gradloom_runtime::{Device, Session, Store, Train, Trainer};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const ROWS: usize = 6;

type Model = (Embedding, Linear, Dropout, Linear);

fn model() -> Model {
    (Embedding::new(11, 8), Linear::new(8, 16), Dropout::new(0.2), Linear::new(16, 3))
}

fn loss((table, inner, dropout, outer): &Model, ids: Tensor, y: Tensor) -> Tensor {
    let hidden = inner.forward(table.forward(ids)).gelu();
    (outer.forward(dropout.forward(hidden)) - y).square().mean()
}

/// Returns a driver, and options for a device of it without a cache.
fn fake() -> (Arc<Fake>, CudaOptions) {
    let driver = Arc::new(Fake::default());
    let overrides = Overrides {
        driver: Some(Arc::clone(&driver) as _),
        compiler: Some(Arc::new(FakeCompiler::default())),
        cache: None,
        no_cache: true,
    };
    (driver, CudaOptions { overrides, ..CudaOptions::default() })
}

fn compiled(device: &Device) -> Result<Train<Model, 2>> {
    Trainer::new(model())
        .inputs([i32("ids", [ROWS]), f32("y", [ROWS, 3])])
        .loss(|model, [ids, y]| loss(model, ids, y))
        .optimizer(AdamW::new(0.01))
        .clip_norm(1.0)
        .compile(device)
}

const IDS: [i32; ROWS] = [1, 2, 3, 4, 5, 6];
const Y: [f32; 3 * ROWS] = [0.5; 3 * ROWS];

fn content(store: &Store) -> Vec<(String, Vec<u8>)> {
    store.entries().iter().map(|e| (e.name.clone(), store.read(&e.name).unwrap())).collect()
}

#[test]
fn a_step_is_one_graph_and_a_replay_changes_nothing_in_it() {
    let (driver, options) = fake();
    let device = Device::cuda_with(&options).unwrap();
    let mut train = compiled(&device).unwrap();
    let kernels = train.program().work().unwrap().dispatches;
    {
        let state = driver.state();
        let graphs: Vec<_> = state.graphs.values().collect();
        assert_eq!(graphs.len(), 1, "the graph that was built is gone, the executable one is there");
        assert_eq!(graphs[0].len(), kernels);
        // The first kernel, which receives the step's data, has no predecessors; some of the others do not
        // depend on each other.
        assert_eq!(graphs[0][0].0, [] as [usize; 0]);
        let chain = graphs[0].iter().enumerate().skip(1).all(|(i, (after, _))| after[..] == [i - 1]);
        assert!(!chain, "independent kernels are branches");
    }
    // Run some steps first, because memory for results is allocated on demand.
    for _ in 0..8 {
        train.step((&IDS, &Y)).unwrap();
    }
    for _ in 0..20 {
        let before = driver.state().calls.len();
        let step = train.step((&IDS, &Y)).unwrap();
        // Inputs and scalars go through host memory, so the driver only launches the graph and records
        // events.
        let calls = driver.state().calls[before..].to_vec();
        assert!(calls.contains(&"launch_graph"), "{calls:?}");
        let others =
            calls.iter().filter(|call| !["launch_graph", "record", "is_done", "event"].contains(call));
        assert_eq!(others.count(), 0, "{calls:?}");
        drop(step);
    }
    let state = driver.state();
    assert_eq!((state.replays, state.launches), (28, 0));
}

#[test]
fn kernels_of_a_row_start_early_where_the_driver_can() {
    let early = |version: i32| {
        let (driver, options) = fake();
        driver.state().version = Some(version);
        let layers: Vec<Linear> = (0..6).map(|_| Linear::new(256, 256)).collect();
        let session = Session::new(layers, &Device::cuda_with(&options).unwrap(), 0).unwrap();
        let row = session.infer([f32("x", [1, 256])], |layers, [x]| {
            layers.iter().fold(x, |x, layer| layer.forward(x).tanh())
        });
        assert_eq!(row.unwrap().plan().launches.len(), 6);
        driver.state().early
    };
    assert_eq!((early(12_030), early(12_020)), (5, 0));
}

#[test]
fn uncaptured_steps_launch_the_same_kernels() {
    let (driver, options) = fake();
    let mut captured = compiled(&Device::cuda_with(&options).unwrap()).unwrap();
    captured.step((&IDS, &Y)).unwrap();
    let kernels = captured.program().work().unwrap().dispatches;
    let mut train = compiled(&Device::cuda_with(&options.uncaptured()).unwrap()).unwrap();
    train.step((&IDS, &Y)).unwrap();
    assert_eq!(train.program().work().unwrap().dispatches, kernels);
    let state = driver.state();
    assert_eq!((state.replays, state.launches), (1, kernels));
}

/// Returns a driver whose library computes products of any size, and options with bf16.
fn with_library() -> (Arc<Fake>, CudaOptions) {
    let (driver, options) = fake();
    (driver, CudaOptions { library: Some(1), precision: Precision::Bf16, ..options })
}

/// Checks plans with and without the library, as `gradloom inspect` shows them.
#[test]
fn a_device_has_the_plans_of_its_target() {
    for (lacks_products, precision) in
        [(false, Precision::Bf16), (true, Precision::Bf16), (false, Precision::F32), (false, Precision::Tf32)]
    {
        let (driver, options) = fake();
        driver.state().lacks_products = lacks_products;
        let device = Device::cuda_with(&options.precision(precision)).unwrap();
        let mut target = device.target();
        assert_eq!(target, Target::cuda(Limits::cuda_of((9, 0)).with_library(), precision));
        if lacks_products {
            target.limits.library = None;
        }
        let plans = [device, Device::null_for(target)].map(|device| {
            let session = Session::new(Linear::new(512, 1024), &device, 0).unwrap();
            let forward = session.infer([f32("x", [512, 512])], |layer, [x]| layer.forward(x).gelu());
            let plan = forward.unwrap().plan().clone();
            let by_library = plan.launches.iter().any(|l| matches!(l.schedule, Schedule::Library(_)));
            assert_eq!(by_library, !lacks_products && precision != Precision::F32);
            (format!("{plan:?}"), compiled(&device).unwrap().plan().clone())
        });
        assert_eq!(plans[0].0, plans[1].0, "{precision:?}, lacks_products: {lacks_products}");
        assert_eq!(format!("{:?}", plans[0].1), format!("{:?}", plans[1].1));
    }
}

#[test]
fn a_library_multiplies_as_nodes_of_the_graph_with_scratch_of_their_own() {
    let (driver, options) = with_library();
    let mut train = compiled(&Device::cuda_with(&options).unwrap()).unwrap();
    train.step((&IDS, &Y)).unwrap();
    let products = {
        let state = driver.state();
        let graph = state.graphs.values().next().unwrap();
        let products: Vec<_> = graph
            .iter()
            .enumerate()
            .filter_map(|(i, (_, call))| if let Call::Product(call) = call { Some((i, call)) } else { None })
            .collect();
        assert!(products.len() >= 3, "{graph:?}");
        let scratch: HashSet<u64> = products.iter().map(|(_, call)| call.addresses[3]).collect();
        assert!(
            (2..=REUSE_DISTANCE + 1).contains(&scratch.len()),
            "those that are near to each other share none"
        );
        let pairs =
            products.iter().enumerate().flat_map(|(i, a)| products[i + 1..].iter().map(move |b| (a, b)));
        for ((first, _), (second, _)) in pairs.filter(|((_, a), (_, b))| a.addresses[3] == b.addresses[3]) {
            let mut open = vec![*second];
            let mut before = Vec::new();
            while let Some(node) = open.pop() {
                before.push(node);
                open.extend(&graph[node].0);
            }
            assert!(before.contains(first), "node {second} takes the scratch of {first}");
        }
        assert_eq!((state.replays, state.launches, state.captured.len()), (1, 0, 0));
        products.len()
    };
    let mut uncaptured = compiled(&Device::cuda_with(&options.clone().uncaptured()).unwrap()).unwrap();
    uncaptured.step((&IDS, &Y)).unwrap();
    assert_eq!(driver.state().captured.len(), products);

    let (driver, options) = with_library();
    let mut own = compiled(&Device::cuda_with(&options.without_cublaslt()).unwrap()).unwrap();
    own.step((&IDS, &Y)).unwrap();
    let state = driver.state();
    let is_kernel = |call: &Call| matches!(call, Call::Kernel(_));
    assert!(state.graphs.values().flatten().all(|(_, call)| is_kernel(call)));
}

#[test]
fn every_call_of_a_library_may_fail() {
    fail_each(with_library);
    fail_each(|| {
        let (driver, options) = with_library();
        (driver, options.uncaptured())
    });
}

#[test]
fn planned_bytes_are_allocated_bytes() {
    let (driver, options) = fake();
    let device = Device::cuda_with(&options).unwrap();
    let train = compiled(&device).unwrap();
    let totals = &train.plan().totals;
    let planned = totals.step + totals.constants + totals.workspace + train.store().bytes();
    let extra = train.program().work().unwrap().extra_bytes;
    // Each allocation has room for reads of the library past its end, and is rounded up to 16 bytes.
    let room = driver.state().memories() * ROOM_BEHIND;
    let (used, around) = ((driver.state().used() - room) as u64, 16 * 12);
    assert!(used >= planned + extra && used <= planned + extra + around, "{used} for {planned} and {extra}");
    drop(train);
    drop(device);
    assert_eq!(driver.state().left(), "0 allocations, 0 of the host, 0 contexts, {}");
}

#[test]
fn ten_thousand_steps_take_no_more_memory() {
    let (driver, options) = fake();
    let device = Device::cuda_with(&options).unwrap();
    let mut train = compiled(&device).unwrap();
    let step = |train: &mut Train<Model, 2>, read: bool| {
        let step = train.step((&IDS, &Y)).unwrap();
        if read {
            step.loss().unwrap();
        }
    };
    (0..20).for_each(|run| step(&mut train, run % 3 == 0));
    let used = driver.state().used();
    let left = driver.state().left();
    driver.state().calls.clear();
    (0..10_000).for_each(|run| step(&mut train, run % 7 == 0));
    let state = driver.state();
    assert_eq!((state.used(), state.left()), (used, left));
    assert!(!state.calls.iter().any(|call| call.starts_with("allocate")));
}

#[test]
fn a_device_that_is_too_small_refuses_the_program_and_keeps_the_others() {
    let (driver, options) = fake();
    let device = Device::cuda_with(&options).unwrap();
    let mut train = compiled(&device).unwrap();
    let used = driver.state().used();
    driver.state().bytes = Some(used + ALIGNMENT as usize);
    let error = compiled(&device).unwrap_err();
    assert!([ErrorKind::Plan, ErrorKind::Device].contains(&error.kind()), "{error}");
    assert!(error.to_string().contains("memory"), "{error}");
    assert_eq!(driver.state().used(), used, "what was allocated for it was given back");
    train.step((&IDS, &Y)).unwrap().loss().unwrap();
}

#[test]
fn a_device_that_hangs_is_an_error_once_the_watchdog_barks() {
    let (driver, options) = fake();
    let device = Device::cuda_with(&options.watchdog(Duration::from_millis(20))).unwrap();
    let mut train = compiled(&device).unwrap();
    driver.state().hangs = true;
    let error = train.step((&IDS, &Y)).and_then(|step| step.loss()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.message().contains("hangs"), "{error}");
    assert_eq!(train.step((&IDS, &Y)).map(|_| ()).unwrap_err().kind(), ErrorKind::Lost);
}

/// Runs through the whole life of a device: opens it, compiles a program, runs steps, reads the store, and
/// releases everything. Returns the number of driver calls before the release.
fn life(driver: &Fake, options: &CudaOptions, store: &mut Option<Store>) -> Result<usize> {
    let device = Device::cuda_with(options)?;
    let mut train = compiled(&device)?;
    *store = Some(train.store().clone());
    train.step((&IDS, &Y))?.loss()?;
    train.step((&IDS, &Y))?;
    train.wait()?;
    let read = |entry: &StoreEntry| train.store().read(&entry.name).map(|_| ());
    train.store().entries().iter().try_for_each(read)?;
    let calls = driver.state().calls.len();
    Ok(calls)
}

/// Fails each call of the driver once with each kind of error, and expects one error, no leaks, and an intact
/// store.
#[test]
fn every_call_may_fail() {
    fail_each(fake);
}

#[test]
fn every_call_of_uncaptured_steps_may_fail() {
    fail_each(|| {
        let (driver, options) = fake();
        (driver, options.uncaptured())
    });
}

fn fail_each(made: impl Fn() -> (Arc<Fake>, CudaOptions)) {
    let (driver, options) = made();
    let end = life(&driver, &options, &mut None).unwrap();
    let calls = driver.state().calls.clone();
    assert!(calls.len() > 60, "{} calls", calls.len());
    // Codes of an out-of-memory error, an invalid value and an illegal address.
    for code in [2, 1, 700] {
        for (at, call) in calls.iter().enumerate() {
            let (driver, options) = made();
            driver.state().fails = Some((at, code));
            let mut store = None;
            let result = life(&driver, &options, &mut store);
            let what = format!("call {at} ({call}) with error {code}");
            match &result {
                // Only two kinds of failures go unnoticed: unknown free memory sets no limit, and drops
                // report no errors.
                Ok(_) => assert!(at >= end || *call == "free_bytes", "{what} went unnoticed"),
                Err(error) => check(error, code, &what),
            }
            // A failure that is not a loss leaves the store unchanged and readable.
            let is_lost = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Lost);
            if let (Some(store), false) = (&store, is_lost || code == 700) {
                driver.state().fails = None;
                assert_eq!(content(store).len(), store.entries().len(), "{what}");
            }
            drop(store);
            assert_eq!(driver.state().left(), "0 allocations, 0 of the host, 0 contexts, {}", "{what}");
        }
    }
}

fn check(error: &Error, code: u32, what: &str) {
    let kind = error.kind();
    let expected = if code == 700 { kind == ErrorKind::Lost || kind == ErrorKind::Device } else { true };
    assert!(expected, "{what}: {error}");
    assert!(kind != ErrorKind::Internal, "{what}: {error}");
    assert!(error.message().len() > 10, "{what}: {error}");
}

#[test]
fn programs_share_kernels_and_a_damaged_file_is_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let run = |expected: Option<usize>| {
        let (_, mut options) = fake();
        let compiler = Arc::new(FakeCompiler::default());
        options.overrides.compiler = Some(Arc::clone(&compiler) as _);
        (options.overrides.cache, options.overrides.no_cache) = (Some(folder.path().into()), false);
        let device = Device::cuda_with(&options).unwrap();
        let _first = compiled(&device).unwrap();
        let count = compiler.compiled.load(Ordering::Relaxed);
        let _second = compiled(&device).unwrap();
        assert_eq!(compiler.compiled.load(Ordering::Relaxed), count, "equal kernels are compiled once");
        if let Some(expected) = expected {
            assert_eq!(count, expected);
        }
        count
    };
    let files =
        || -> Vec<_> { std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect() };
    let count = run(None);
    assert_eq!(files().len(), count);
    run(Some(0));
    // Damage the files: one is truncated, one corrupted, one empty, and one contains another kernel.
    let all = files();
    let bytes = std::fs::read(&all[0]).unwrap();
    std::fs::write(&all[0], &bytes[..bytes.len() - 1]).unwrap();
    let mut changed = std::fs::read(&all[1]).unwrap();
    *changed.last_mut().unwrap() ^= 1;
    std::fs::write(&all[1], changed).unwrap();
    std::fs::write(&all[2], []).unwrap();
    std::fs::copy(&all[4], &all[3]).unwrap();
    run(Some(4));
    run(Some(0));
}

#[test]
fn ways_to_multiply_are_measured_once_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    // Returns the number of algorithms timed.
    let run = || {
        let (driver, mut options) = with_library();
        (options.overrides.cache, options.overrides.no_cache) = (Some(folder.path().into()), false);
        let mut train = compiled(&Device::cuda_with(&options).unwrap()).unwrap();
        train.step((&IDS, &Y)).unwrap();
        driver.state().calls.iter().filter(|call| **call == "elapsed").count()
    };
    assert!(run() > 0);
    assert_eq!(run(), 0);
    let is_choice = |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind == "product");
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let choices: Vec<_> = files.filter(is_choice).collect();
    assert!(choices.len() >= 3, "{choices:?}");
    let bytes = std::fs::read(&choices[0]).unwrap();
    std::fs::write(&choices[0], &bytes[..bytes.len() - 8]).unwrap();
    assert!(run() > 0, "a damaged choice is measured again");
    assert_eq!(run(), 0);
}

#[test]
fn gpus_that_are_not_there_or_too_old_are_refused() {
    let (_, options) = fake();
    let error = Device::cuda_with(&options.clone().index(2)).unwrap_err();
    assert!(error.message().contains("no NVIDIA GPU 2: there are 2"), "{error}");
    let error = Device::cuda_with(&options.index(1)).unwrap_err();
    assert!(error.message().contains("compute capability 7.5"), "{error}");
}

#[test]
fn a_step_is_timed_from_its_first_kernel_to_its_last() {
    let (_, options) = fake();
    let mut train = compiled(&Device::cuda_with(&options).unwrap()).unwrap();
    train.set_step_timing(true);
    assert_eq!(train.program().step_time().unwrap(), None, "no step was made yet");
    train.step((&IDS, &Y)).unwrap();
    // The fake driver reports this time between any two events.
    assert_eq!(train.program().step_time().unwrap(), Some(std::time::Duration::from_micros(250)));
    train.set_step_timing(false);
    train.step((&IDS, &Y)).unwrap();
    assert_eq!(train.program().step_time().unwrap(), None);
}

#[test]
fn threads_use_a_device_at_the_same_time() {
    let (driver, options) = fake();
    let device = Device::cuda_with(&options).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut train = compiled(&device).unwrap();
                for _ in 0..10 {
                    train.step((&IDS, &Y)).unwrap().loss().unwrap();
                }
            });
        }
    });
    assert_eq!(driver.state().replays, 40);
}

/// Communicator of rank 0 of a world, whose other rank may fail.
#[derive(Clone, Debug, Default)]
struct Peers(Arc<std::sync::Mutex<Option<Error>>>);

impl Communicator for Peers {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        2
    }

    fn session(&self) -> u64 {
        0
    }

    fn all_reduce(&self, _: &mut [&mut [f32]]) -> Result<()> {
        unreachable!("the GPUs do it")
    }

    fn reduce_scatter(&self, _: &[&[f32]], _: &mut [&mut [f32]]) -> Result<()> {
        unreachable!("the GPUs do it")
    }

    fn all_gather(&self, _: &[&[f32]], _: &mut [&mut [f32]]) -> Result<()> {
        unreachable!("the GPUs do it")
    }

    fn broadcast(&self, _: usize, _: &mut Vec<u8>) -> Result<()> {
        self.check()
    }

    fn fail(&self, error: &Error) {
        self.0.lock().unwrap().get_or_insert(error.clone());
    }

    fn check(&self) -> Result<()> {
        self.0.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

#[test]
fn a_step_of_a_rank_has_sums_in_its_graph_and_ends_when_another_rank_fails() {
    let (driver, options) = fake();
    let peers = Peers::default();
    let device = Device::cuda_with(&options).unwrap().in_world(&peers).unwrap();
    assert_eq!((device.rank(), device.ranks()), (0, 2));
    // The first sum connects the devices, outside of graphs.
    assert_eq!(std::mem::take(&mut driver.state().captured).len(), 1);
    let mut train = compiled(&device).unwrap();
    {
        let state = driver.state();
        let graph = state.graphs.values().find(|nodes| nodes.len() > 1).expect("a step has a graph");
        let sums: Vec<_> = graph
            .iter()
            .enumerate()
            .filter_map(|(i, (before, call))| match call {
                Call::Collective(call) => Some((i, before, call)),
                _ => None,
            })
            .collect();
        // The loss and all gradients fit into one bucket. Something after the sum waits for it.
        let [(position, before, call)] = sums[..] else { panic!("one sum: {sums:?}") };
        // They are next to each other, so the library sees one operand, with the padding between them.
        let (elements, values) = (1 + 11 * 8 + 8 * 16 + 16 + 16 * 3 + 3, 6);
        let [joined] = call.elements[..] else { panic!("one operand: {:?}", call.elements) };
        assert!((elements..elements + values * 64).contains(&joined), "{joined}");
        assert_eq!(call.reads, call.writes, "sums are in place");
        assert!(!before.is_empty() && graph.iter().any(|(before, _)| before.contains(&position)));
    }
    train.step((&IDS, &Y)).unwrap();
    *peers.0.lock().unwrap() = Some(Error::new(ErrorKind::World, "rank 1 ended"));
    driver.state().hangs = true;
    let error = train.step((&IDS, &Y)).and_then(|step| step.loss()).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::World, "rank 1 ended"));
    assert_eq!(driver.state().aborted, 1);
    drop((train, device));
    let state = driver.state();
    assert!(state.left().starts_with("0 allocations, 0 of the host"), "{}", state.left());
}

#[test]
fn a_world_without_the_library_is_an_error() {
    let (driver, options) = fake();
    let device = Device::cuda_with(&options).unwrap();
    let peers = Peers::default();
    for call in ["unique_id", "connect"] {
        // Find the call that fails by its position after those of an attempt that succeeds.
        let (other, options) = fake();
        let opened = Device::cuda_with(&options).unwrap();
        opened.in_world(&peers).unwrap();
        let made = other.state().calls.iter().position(|made| *made == call).expect("it is made");
        let first = other.state().calls.iter().position(|made| *made == "unique_id").expect("it is made");
        let now = driver.state().calls.len();
        driver.state().fails = Some((now + made - first, 1));
        let error = device.in_world(&peers).unwrap_err();
        assert!(error.message().contains("as the test asked"), "{error}");
    }
    driver.state().fails = None;
    let device = device.in_world(&peers).unwrap();
    assert!(device.in_world(&peers).unwrap_err().message().contains("already"));
}
