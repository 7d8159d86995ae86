//! Tests faults within a phase that no graph can cause: a kernel that fails or panics after it has written.
//! (In `gradloom-models/tests/faults.rs`, each operation fails before it changes anything.)

use super::*;
use gradloom_core::ir::parse;
use gradloom_core::reference::HostTensor;
use gradloom_cpu::CpuDevice as _;
use gradloom_device::backend::Resident;
use gradloom_device::cancel::Stop;

const COUNT: &str = "graph {\n%0: f32[2] = param \"w\"\n%1: f32[2] = constant 1.0\n%2: f32[2] = add %0, %1\n\
                     output \"old\" %0\nupdate %0 <- %2\n}";

fn program() -> Program {
    let ones = |kind: &OpKind| match kind {
        OpKind::Param { ty, .. } => Some(HostTensor::from_f64(ty.clone(), vec![1.0; ty.elements()])),
        _ => None,
    };
    let device = Device::cpu_with_threads(1).unwrap();
    Program::standalone(parse(COUNT).unwrap(), &device, &ones).unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Compute,
    CheckCommit,
    Commit,
    PanicInCompute,
    PanicInCommit,
}

/// Loaded program that fails at a chosen point, after it has done the work of that point.
struct Broken {
    inner: Box<dyn Immediate>,
    fault: Fault,
}

impl Broken {
    fn meet(&self, fault: Fault) -> Result<()> {
        if self.fault == fault { Err(Error::new(ErrorKind::Trap, "on demand")) } else { Ok(()) }
    }
}

impl Resident for Broken {
    fn write(&mut self, buffer: usize, bytes: &[u8]) {
        self.inner.write(buffer, bytes);
    }
    fn read(&self, access: &Access, into: &mut Elements) -> Result<()> {
        self.inner.read(access, into)
    }
    fn allocated(&self) -> u64 {
        self.inner.allocated()
    }
    fn unique_kernels(&self) -> usize {
        self.inner.unique_kernels()
    }
}

impl Immediate for Broken {
    fn compute(&mut self, stop: Stop<'_>) -> Result<()> {
        self.inner.compute(stop)?;
        assert!(self.fault != Fault::PanicInCompute, "on demand");
        self.meet(Fault::Compute)
    }
    fn check_commit(&self) -> Result<()> {
        self.meet(Fault::CheckCommit)?;
        self.inner.check_commit()
    }
    fn failed_guard(&self) -> Result<Option<&str>> {
        self.inner.failed_guard()
    }
    fn commit(&mut self) -> Result<()> {
        self.inner.commit()?;
        assert!(self.fault != Fault::PanicInCommit, "on demand");
        self.meet(Fault::Commit)
    }
}

/// Adds a fault to the program.
fn break_at(mut program: Program, fault: Fault) -> Program {
    let Loaded::Immediate(inner) = program.loaded else { panic!("the CPU runs steps itself") };
    program.loaded = Loaded::Immediate(Box::new(Broken { inner, fault }));
    program
}

#[test]
fn a_fault_before_the_commit_changes_nothing_and_the_next_run_works() {
    for fault in [Fault::Compute, Fault::CheckCommit, Fault::PanicInCompute] {
        let healthy = program();
        let store = healthy.store().clone();
        let mut broken = break_at(healthy, fault);
        let mut outputs = vec![Elements::default()];
        let run = std::panic::AssertUnwindSafe(|| broken.run(Stop::default(), &mut outputs).map(|_| ()));
        match std::panic::catch_unwind(run) {
            Ok(result) => {
                assert_eq!(result.unwrap_err().kind(), ErrorKind::Trap);
                assert!(outputs.is_empty(), "no values of an earlier run remain");
            }
            Err(_) => assert!(fault == Fault::PanicInCompute),
        }
        assert!(!store.is_lost());
        assert_eq!(store.read_f32("w").unwrap(), [1.0, 1.0]);

        let mut again = program();
        assert!(matches!(again.run(Stop::default(), &mut outputs), Ok(Outcome::Committed)));
        assert_eq!(again.store().read_f32("w").unwrap(), [2.0, 2.0]);
    }
}

#[test]
fn a_fault_in_the_commit_loses_the_store_until_it_is_restored() {
    for fault in [Fault::Commit, Fault::PanicInCommit] {
        let mut broken = break_at(program(), fault);
        let store = broken.store().clone();
        let mut outputs = Vec::new();
        let run = std::panic::AssertUnwindSafe(|| broken.run(Stop::default(), &mut outputs).map(|_| ()));
        match std::panic::catch_unwind(run) {
            Ok(result) => {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Lost);
                assert!(error.to_string().contains("on demand"), "{error}");
            }
            Err(_) => assert!(fault == Fault::PanicInCommit),
        }
        assert!(store.is_lost());
        // All programs that use the store report the loss, whichever caused it.
        assert_eq!(broken.run(Stop::default(), &mut outputs).unwrap_err().kind(), ErrorKind::Lost);
        let reader = parse("graph {\n%0: f32[2] = param \"w\"\noutput \"w\" %0\n}").unwrap();
        let initial = |_: &str, _: &Type, _: &mut [f32]| panic!("the store has it");
        let mut reader =
            Program::load(reader, &Device::cpu_with_threads(1).unwrap(), &store, initial).unwrap();
        assert_eq!(reader.run(Stop::default(), &mut outputs).unwrap_err().kind(), ErrorKind::Lost);

        let restored = [3.0f32, 4.0].map(f32::to_le_bytes).concat();
        store.write_all(&[("w", &Type::new(DType::F32, [2]), &restored)]).unwrap();
        assert!(reader.run(Stop::default(), &mut outputs).is_ok());
        assert_eq!((outputs.len(), &outputs[0][..]), (1, &restored[..]));
    }
}

/// A write between a step's first read and its commit would mix with the step, so it waits.
#[test]
fn writes_wait_for_a_step_that_has_begun() {
    let program = program();
    let store = program.store().clone();
    let turn = store.take_turn();
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let writer = store.clone();
        scope.spawn(move || {
            writer.write(&[("w", &Type::new(DType::F32, [2]), &[0; 8])]).unwrap();
            done.send(()).unwrap();
        });
        let early = wait.recv_timeout(std::time::Duration::from_millis(50));
        assert_eq!(early, Err(std::sync::mpsc::RecvTimeoutError::Timeout));
        assert_eq!(store.read_f32("w").unwrap(), [1.0, 1.0], "readers do not wait");
        drop(turn);
        wait.recv().unwrap();
    });
    assert_eq!(store.read_f32("w").unwrap(), [0.0, 0.0]);
}

#[test]
fn what_is_allocated_is_what_was_planned() {
    let program = program();
    let totals = program.plan().totals;
    assert_eq!(program.allocated(), totals.step + totals.constants + totals.workspace);
    assert_eq!(program.store().read_lock().allocated(), totals.store);
}

/// A program that only reads never observes part of another program's commit.
#[test]
fn readers_see_whole_steps() {
    // Use smaller numbers with Miri, which is about a thousand times slower.
    const ELEMENTS: usize = if cfg!(miri) { 256 } else { 1 << 16 };
    const STEPS: usize = if cfg!(miri) { 10 } else { 300 };
    let text = format!(
        "graph {{\n%0: f32[{ELEMENTS}] = param \"w\"\n%1: f32[{ELEMENTS}] = constant 1.0\n\
         %2: f32[{ELEMENTS}] = add %0, %1\nupdate %0 <- %2 {{alias}}\n}}"
    );
    let device = Device::cpu_with_threads(1).unwrap();
    let zeros = |kind: &OpKind| match kind {
        OpKind::Param { ty, .. } => Some(HostTensor::from_f64(ty.clone(), vec![0.0; ty.elements()])),
        _ => None,
    };
    let mut writer = Program::standalone(parse(&text).unwrap(), &device, &zeros).unwrap();
    let store = writer.store().clone();
    let text = format!(
        "graph {{\n%0: f32[{ELEMENTS}] = param \"w\"\n%1: f32[] = reduce_max %0 {{axes=[0]}}\n\
         %2: f32[] = reduce_min %0 {{axes=[0]}}\noutput \"most\" %1\noutput \"least\" %2\n}}"
    );
    let initial = |_: &str, _: &Type, _: &mut [f32]| panic!("the store has it");
    let mut reader = Program::load(parse(&text).unwrap(), &device, &store, initial).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut outputs = Vec::new();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                reader.run(Stop::default(), &mut outputs).unwrap();
                assert_eq!(outputs[0][..], outputs[1][..], "all elements are of one step");
            }
        });
        for _ in 0..STEPS {
            writer.run(Stop::default(), &mut Vec::new()).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(store.read_f32("w").unwrap(), vec![STEPS as f32; ELEMENTS]);
}
