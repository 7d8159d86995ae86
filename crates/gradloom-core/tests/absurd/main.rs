//! Calls every public function of tensors, layers, optimizers and schedules with absurd arguments: numbers at
//! the limits of their types, empty lists, and tensors of wrong ranks, dtypes and sizes. Each program must
//! succeed or result in an error at the user's line, and take little time and memory.
//!
//! The tables are in `tensors.rs` and its siblings; `complete.rs` finds public functions that are in no
//! table.

mod complete;
mod layers;
mod many;
mod numbers;
mod optimizers;
mod ranges;
mod tensors;
mod values;

use gradloom_core::error::Error;
use gradloom_core::ir::{DType, Type};
use gradloom_core::nn::Module;
use gradloom_core::trace::{Input, Tensor, trace};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

/// Directory of the tables, as it appears in source locations.
const HERE: &str = "tests/absurd/";
/// Maximum time for one program, in a slow build on a busy machine.
const MOST_TIME: Duration = Duration::from_secs(5);
/// Maximum peak memory of the process, in bytes.
const MOST_MEMORY: usize = 1 << 30;

/// Outcomes of the programs of a table.
#[derive(Default)]
pub(crate) struct Report {
    programs: usize,
    refused: usize,
    faults: Vec<String>,
}

thread_local! {
    /// Location and message of the last panic.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Records the messages of panics without printing them.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
            let text = text_of(info.payload());
            PANIC.with(|last| *last.borrow_mut() = format!("{} {text}", place.unwrap_or_default()));
            // Print the failures of the tests themselves.
            if text.starts_with("absurd: ") {
                print(info);
            }
        }));
    });
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text").to_string()
}

impl Report {
    pub(crate) fn new() -> Self {
        keep_panics();
        Self::default()
    }

    fn fault(&mut self, what: String) {
        // Keep the first faults, which are enough to find the cause.
        if self.faults.len() < 60 {
            self.faults.push(what);
        }
    }

    /// Runs `f`, which must not panic.
    pub(crate) fn run<T>(&mut self, call: &dyn Fn() -> String, f: impl FnOnce() -> T) -> Option<T> {
        self.programs += 1;
        let begin = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(f));
        let time = begin.elapsed();
        if time > MOST_TIME {
            self.fault(format!("{} took {time:?}", call()));
        }
        match outcome {
            Ok(result) => Some(result),
            Err(_) => {
                let said = PANIC.with(|last| last.borrow().clone());
                self.fault(format!("{} panics: {said}", call()));
                None
            }
        }
    }

    /// Creates a layer. The constructor may panic, but only at the caller's line and with its own message.
    pub(crate) fn made<T>(&mut self, call: &dyn Fn() -> String, f: impl FnOnce() -> T) -> Option<T> {
        self.programs += 1;
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(layer) => Some(layer),
            Err(payload) => {
                let said = PANIC.with(|last| last.borrow().clone());
                let text = text_of(&*payload);
                let is_of_rust =
                    ["overflow", "out of bounds", "out of range", "divide by zero", "unwrap", "capacity"];
                if !said.contains(HERE) || is_of_rust.iter().any(|word| text.contains(word)) {
                    self.fault(format!("{} panics: {said}", call()));
                }
                self.refused += 1;
                None
            }
        }
    }

    /// Records an outcome. An error must have a message and a location in the tables.
    pub(crate) fn outcome<T>(&mut self, call: &dyn Fn() -> String, outcome: Result<T, Error>) -> Option<T> {
        match outcome {
            Ok(result) => Some(result),
            Err(error) => {
                self.refused += 1;
                let here = error.origin().is_some_and(|at| at.file.replace('\\', "/").contains(HERE));
                if !here || error.message().is_empty() {
                    self.fault(format!("{}: not at the user's line: {error}", call()));
                }
                None
            }
        }
    }

    /// Traces and verifies a program with inputs of these types.
    pub(crate) fn traced(
        &mut self,
        name: &str,
        model: &dyn Module,
        types: &[&Type],
        arguments: &dyn Fn() -> String,
        f: &dyn Fn(&[Tensor]),
    ) {
        let inputs: Vec<Input> = types
            .iter()
            .enumerate()
            .map(|(i, ty)| Input { name: i.to_string(), ty: (*ty).clone() })
            .collect();
        let call = || {
            let types: Vec<String> = types.iter().map(|ty| ty.to_string()).collect();
            format!("`{name}` of {} with {}", types.join(" and "), arguments())
        };
        let run = || trace(model, &inputs, true, f, |()| vec![]);
        let Some(traced) = self.run(&call, run) else { return };
        let Some(traced) = self.outcome(&call, traced) else { return };
        let verified = self.run(&call, || gradloom_core::verify::verify(&traced.graph));
        self.programs -= 1;
        if let Some(Err(error)) = verified {
            // A few lines can expand to too many ops, so accept the error with which the verifier reports
            // them.
            if !error.to_string().contains("more than 262144 ops") {
                self.fault(format!("{}: {error}", call()));
            }
        }
    }

    /// Checks that at least `at_least` programs ran without a fault, and that some of them were refused.
    #[track_caller]
    pub(crate) fn check(self, at_least: usize) {
        assert!(self.refused > 0, "absurd: none of {} programs was refused", self.programs);
        self.check_without_refusals(at_least);
    }

    /// Like [`Report::check`], for tables without refusals.
    #[track_caller]
    pub(crate) fn check_without_refusals(self, at_least: usize) {
        let Self { programs, refused, faults } = self;
        println!("{programs} programs, {refused} refused");
        assert!(faults.is_empty(), "absurd: {} faults\n{}", faults.len(), faults.join("\n"));
        assert!(programs >= at_least, "absurd: {programs} programs");
        if let Some(most) = most_memory() {
            assert!(most < MOST_MEMORY, "absurd: the programs took {most} bytes");
        }
    }
}

/// Returns the peak memory of the process, if the system reports it.
fn most_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Returns types for a tensor: types of several ranks, types without elements, types larger than any memory,
/// and types of each dtype.
pub(crate) fn types() -> Vec<Type> {
    let of = |dtype: DType, shape: &[usize]| Type::new(dtype, shape);
    vec![
        of(DType::F32, &[]),
        of(DType::F32, &[0]),
        of(DType::F32, &[3]),
        of(DType::F32, &[2, 3]),
        of(DType::F32, &[2, 2]),
        of(DType::F32, &[3, 0]),
        of(DType::F32, &[2, 3, 4]),
        of(DType::F32, &[1, 2, 4, 4]),
        of(DType::F32, &[0, 0, 0, 0]),
        of(DType::F32, &[1 << 31]),
        of(DType::F32, &[1 << 25, 1 << 20]),
        of(DType::F32, &[1, 1, 1, 1 << 45]),
        of(DType::I32, &[3]),
        of(DType::Bool, &[2, 2]),
        of(DType::U8, &[4]),
        of(DType::I64, &[2, 3]),
        of(DType::F16, &[2, 4]),
    ]
}

/// Returns a smaller selection of types, for a second and a third tensor.
pub(crate) fn few_types() -> Vec<Type> {
    let of = |dtype: DType, shape: &[usize]| Type::new(dtype, shape);
    vec![
        of(DType::F32, &[]),
        of(DType::F32, &[0]),
        of(DType::F32, &[3]),
        of(DType::F32, &[2, 3]),
        of(DType::F32, &[2, 3, 4]),
        of(DType::F32, &[1, 2, 4, 4]),
        of(DType::F32, &[1 << 31]),
        of(DType::I32, &[]),
        of(DType::I32, &[2]),
        of(DType::Bool, &[2, 3]),
        of(DType::U8, &[4]),
    ]
}

/// Fails with a list of functions that are missing from the tables, if any.
#[track_caller]
fn assert_in_tables(missing: &[String]) {
    let (count, names) = (missing.len(), missing.join("\n"));
    assert!(missing.is_empty(), "absurd: {count} functions are in no table:\n{names}");
}
