//! Functions called by the script.
//!
//! In and out: numbers; bytes by address and length in the module's memory. A function that fails returns -1,
//! and leaves the error as JSON at [`output_ptr`]. Invariant: a single thread calls these functions, so
//! the state is one value; other threads only compute. These names are exported only from the WebAssembly
//! module.

#![allow(clippy::missing_safety_doc)]

use crate::arguments::Arguments;
use crate::commands::Commands;
use crate::report;
use crate::sessions::Sessions;
use gradloom_core::error::{Error, ErrorKind, Result};
use std::cell::{RefCell, RefMut};
use std::sync::Arc;

#[derive(Default)]
struct Module {
    commands: Commands,
    sessions: Sessions,
    output: Vec<u8>,
}

thread_local! {
    // Leak the module, which exists as long as the page: a `'static` reference lets one function return the
    // borrow, instead of a copy of the code in each export.
    static MODULE: &'static RefCell<Module> = {
        #[cfg(target_arch = "wasm32")]
        watch_panics();
        Box::leak(Box::default())
    };
}

#[cfg(target_arch = "wasm32")]
#[link(wasm_import_module = "host")]
unsafe extern "C" {
    fn panic(message: *const u8, length: usize);
}

/// Passes the message of a panic to the script before the module stops.
#[cfg(target_arch = "wasm32")]
fn watch_panics() {
    std::panic::set_hook(Box::new(|info| {
        let message = info.to_string();
        // SAFETY: the script reads the message before it returns.
        unsafe { panic(message.as_ptr(), message.len()) };
    }));
}

/// Initializes libc, which registers the caller as a thread. Calling the constructors explicitly marks the
/// module as a library; otherwise the linker would initialize and end the program in each export.
#[cfg(target_os = "wasi")]
#[unsafe(no_mangle)]
pub extern "C" fn _initialize() {
    unsafe extern "C" {
        fn __wasi_init_tp();
        fn __wasm_call_ctors();
    }
    // SAFETY: the script calls this once, before any other function.
    unsafe {
        __wasi_init_tp();
        __wasm_call_ctors();
    }
}

fn module() -> RefMut<'static, Module> {
    MODULE.with(|module| module.borrow_mut())
}

/// Returns an id, or -1 with the error as the output.
fn answer(f: impl FnOnce(&mut Module) -> Result<usize>) -> i32 {
    let mut module = module();
    let result = f(&mut module);
    module.answer(result)
}

/// Returns 0 with a text as the output, or -1 with the error.
fn tell(f: impl FnOnce(&mut Module) -> Result<String>) -> i32 {
    let mut module = module();
    let result = f(&mut module);
    module.tell(result)
}

impl Module {
    fn answer(&mut self, result: Result<usize>) -> i32 {
        result
            .and_then(|id| i32::try_from(id).map_err(|_| Error::new(ErrorKind::Internal, "too many ids")))
            .unwrap_or_else(|error| {
                self.output = report::error(&error).into_bytes();
                -1
            })
    }

    fn tell(&mut self, result: Result<String>) -> i32 {
        let told = result.map(|text| {
            self.output = text.into_bytes();
            0
        });
        self.answer(told)
    }
}

/// Returns `count` elements at an address.
///
/// # Safety
/// If `count` is not 0, `at` must be aligned and valid for reads of `count` initialized elements, which the
/// script must not change during the call.
unsafe fn slice<'a, T>(at: *const T, count: usize) -> &'a [T] {
    // SAFETY: guaranteed by the caller for a `count` above 0. Without elements, the address may be anything.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, count) } }
}

/// Allocates `bytes` bytes, aligned to 8. Returns null if there is not enough memory.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn alloc(bytes: usize) -> *mut u64 {
    let mut room = Vec::new();
    if room.try_reserve_exact(bytes.div_ceil(8)).is_err() {
        return std::ptr::null_mut();
    }
    room.resize(bytes.div_ceil(8), 0_u64);
    Box::leak(room.into_boxed_slice()).as_mut_ptr()
}

/// Frees an allocation.
///
/// # Safety
/// `at` must have been returned by [`alloc`] for the same `bytes`, and not freed since.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn dealloc(at: *mut u64, bytes: usize) {
    // SAFETY: the caller guarantees that `alloc` returned `at` for the same `bytes`.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, bytes.div_ceil(8))) });
}

/// Returns the address of the output of the last call.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn output_ptr() -> *const u8 {
    module().output.as_ptr()
}

/// Returns the length of the output in bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn output_len() -> usize {
    module().output.len()
}

/// Interns a text and returns its id.
///
/// # Safety
/// `at` must be valid for reads of `bytes` initialized bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn text(at: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller guarantees that `at` is valid for `bytes` bytes.
    let text = String::from_utf8_lossy(unsafe { slice(at, bytes) }).into_owned();
    answer(|module| {
        let texts = &mut module.commands.texts;
        if let Some(known) = texts.iter().position(|known| *known == text) {
            return Ok(known);
        }
        texts.push(text);
        Ok(texts.len() - 1)
    })
}

/// Stores f32 elements and returns their id.
///
/// # Safety
/// `at` must be valid for reads of `bytes` initialized bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn blob(at: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller guarantees that `at` is valid for `bytes` bytes.
    let elements: Arc<[f32]> = unsafe { slice(at, bytes) }
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    answer(|module| {
        module.commands.blobs.push(elements);
        Ok(module.commands.blobs.len() - 1)
    })
}

/// Runs a command; see `commands.rs`.
///
/// # Safety
/// `at` must be valid for reads of `count` numbers.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn command(code: u32, at: *const f64, count: usize) -> i32 {
    // SAFETY: the caller guarantees that `at` is valid for `count` numbers.
    let numbers = unsafe { slice(at, count) };
    answer(|module| module.commands.run(code, numbers))
}

/// Returns the rank of a tensor of the open trace; the output is its dtype and extents as u32.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn describe(tensor: usize) -> i32 {
    answer(|module| {
        let tensor = module
            .commands
            .tensor(tensor)
            .ok_or_else(|| Error::new(ErrorKind::Internal, "there is no such tensor"))?;
        let ty = tensor.ty();
        let dtype =
            crate::arguments::DTYPES.iter().position(|&dtype| dtype == ty.dtype).expect("all are there");
        let numbers = [dtype].into_iter().chain(ty.shape.iter().copied());
        module.output = numbers.flat_map(|n| (n as u32).to_le_bytes()).collect();
        Ok(ty.shape.rank())
    })
}

/// Drops texts, blobs, the model and traces, but no sessions and programs.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn reset() {
    module().commands = Commands::default();
}

/// Drops a trace (kind 0), a program (1) or a session (2).
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn release(kind: u32, id: usize) {
    let mut module = module();
    match kind {
        0 => drop(module.commands.traces.get_mut(id).map(Option::take)),
        1 => module.sessions.drop_program(id),
        _ => module.sessions.close(id),
    }
}

/// Sets the limits of the GPU.
///
/// # Safety
/// `at` must be valid for reads of `count` numbers.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn limits(at: *const f64, count: usize) -> i32 {
    // SAFETY: the caller guarantees that `at` is valid for `count` numbers.
    let list = unsafe { slice(at, count) };
    answer(|module| module.sessions.limit(&mut Arguments::new(&module.commands, 0, list)))
}

/// Sets the number of threads for programs on the CPU, including the calling one. Must precede the first
/// session.
#[cfg(feature = "cpu")]
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn threads(count: usize) {
    module().sessions.threads = count;
}

/// Opens a session on the current model and returns its id.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn session(seed_low: u32, seed_high: u32, device: u32, precision: u32) -> i32 {
    let seed = u64::from(seed_low) | u64::from(seed_high) << 32;
    answer(|module| module.sessions.open(&module.commands, seed, device, precision))
}

/// Takes a trace, which can be compiled only once.
fn trace(module: &mut Module, id: usize) -> Result<crate::commands::Trace> {
    let trace = module.commands.traces.get_mut(id).and_then(Option::take);
    trace.ok_or_else(|| Error::new(ErrorKind::Internal, "there is no such trace"))
}

/// Compiles a training program with the optimizer that the numbers encode.
///
/// # Safety
/// `at` must be valid for reads of `count` numbers.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn train(session: usize, of: usize, at: *const f64, count: usize) -> i32 {
    // SAFETY: the caller guarantees that `at` is valid for `count` numbers.
    let list = unsafe { slice(at, count) };
    answer(|module| {
        let trace = trace(module, of)?;
        module.sessions.train(session, trace, &mut Arguments::new(&module.commands, 0, list))
    })
}

/// Compiles a forward program.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn forward(session: usize, of: usize) -> i32 {
    answer(|module| {
        let trace = trace(module, of)?;
        module.sessions.forward(session, trace)
    })
}

/// Returns the number by which the script refers to a program's kernels, or -1 without an error if there is
/// none.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn described(program: usize) -> i32 {
    module().sessions.described(program).ok().flatten().map_or(-1, |number| number as i32)
}

/// Sets the data of an input.
///
/// # Safety
/// `at` must be valid for reads of `bytes` initialized bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn feed(program: usize, input: usize, at: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller guarantees that `at` is valid for `bytes` bytes.
    let bytes = unsafe { slice(at, bytes) };
    answer(|module| module.sessions.feed(program, input, bytes))
}

/// Queues a training step, or a run of a forward program, and returns the step's id.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn step(program: usize) -> i32 {
    answer(|module| module.sessions.step(program))
}

/// Returns the ticket of a step's results, or -1 if they have arrived.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn ticket(step: usize) -> i32 {
    module().sessions.ticket(step).ok().flatten().map_or(-1, |ticket| ticket as i32)
}

/// Accepts the results of a step.
///
/// # Safety
/// `at` must be valid for reads of `bytes` initialized bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn deliver(step: usize, at: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller guarantees that `at` is valid for `bytes` bytes.
    let bytes = unsafe { slice(at, bytes) }.to_vec();
    answer(|module| module.sessions.deliver(step, bytes))
}

/// Returns the result of a step, as JSON.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn result(step: usize) -> i32 {
    tell(|module| module.sessions.result(step))
}

/// Drops a step.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn drop_step(step: usize) {
    module().sessions.drop_step(step);
}

/// Sets the learning rate from two arguments: whether the schedule starts at the next step, and the schedule.
///
/// # Safety
/// `at` must be valid for reads of `count` numbers.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn rate(program: usize, at: *const f64, count: usize) -> i32 {
    // SAFETY: the caller guarantees that `at` is valid for `count` numbers.
    let list = unsafe { slice(at, count) };
    answer(|module| module.sessions.rate(program, &mut Arguments::new(&module.commands, 0, list)))
}

/// Returns the learning rate of the next step, or NaN if the program does not train.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn lr(program: usize) -> f64 {
    module().sessions.lr(program).unwrap_or(f64::NAN)
}

/// Returns the number of steps that a training program attempted, or NaN if the program does not train.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn attempted(program: usize) -> f64 {
    module().sessions.attempted(program).map_or(f64::NAN, |steps| steps as f64)
}

/// Sets the number of attempted steps.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn count_from(program: usize, steps: f64) -> i32 {
    answer(|module| module.sessions.count_from(program, steps as u64))
}

/// Returns a trace that has not been compiled, as JSON.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn graph(of: usize) -> i32 {
    tell(|module| {
        let trace = module.commands.traces.get(of).and_then(Option::as_ref);
        let trace = trace.ok_or_else(|| Error::new(ErrorKind::Internal, "there is no such trace"))?;
        Ok(report::graph(&trace.traced))
    })
}

/// Returns the locations of parameters and states, as JSON.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn store(session: usize) -> i32 {
    tell(|module| module.sessions.store(session))
}

/// Replaces parameters and states, given as triples of a text's id, an address and a number of bytes.
///
/// # Safety
/// `at` must be valid for reads of `count` triples, and the address in each triple for reads of its number of
/// bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn upload(session: usize, strict: u32, at: *const u32, count: usize) -> i32 {
    // SAFETY: the caller guarantees that `at` is valid for `count` triples.
    let triples = unsafe { slice(at, 3 * count) };
    answer(|module| {
        let mut given = Vec::with_capacity(count);
        for triple in triples.chunks_exact(3) {
            let name = module.commands.texts.get(triple[0] as usize);
            let name = name.ok_or_else(|| Error::new(ErrorKind::Internal, "there is no such text"))?;
            // SAFETY: the caller guarantees that each address is valid for its number of bytes.
            given
                .push((name.as_str(), unsafe { slice(triple[1] as usize as *const u8, triple[2] as usize) }));
        }
        module.sessions.upload(session, strict != 0, &given)
    })
}

/// Computes the deferred initial values of a session, unless the script will set all parameters (`is_given`).
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn fill(session: usize, is_given: u32) -> i32 {
    answer(|module| module.sessions.fill(session, is_given != 0))
}

/// Resets parts of a session. `parts` is a sum of 1 for the parameters, 2 for the model's states, and 4 for
/// the optimizer.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn reset_session(session: usize, parts: u32) -> i32 {
    answer(|module| module.sessions.reset(session, [1, 2, 4].map(|part| parts & part != 0)))
}

/// Returns a view of a program: 0 the graph as traced, 1 the graph after the passes, 2 the plan as JSON, 3
/// the kernels as JSON, 4 statistics as JSON, 5 unused parameters as JSON.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn inspect(program: usize, what: u32) -> i32 {
    tell(|module| module.sessions.inspect(program, what))
}

/// Reports that the GPU is lost. The bytes are the reason, as UTF-8 text.
///
/// # Safety
/// `at` must be valid for reads of `bytes` initialized bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn lose(at: *const u8, bytes: usize) {
    // SAFETY: the caller guarantees that `at` is valid for `bytes` bytes.
    let why = String::from_utf8_lossy(unsafe { slice(at, bytes) });
    module().sessions.lose(&why);
}
