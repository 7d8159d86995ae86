//! The functions that a script calls.
//!
//! In and out: numbers; bytes by address and length in the module's memory. A function that can fail gives
//! -1, and leaves an error as JSON where [`output_ptr`] says. Always holds: one thread calls them, so the
//! state is one value; others there may be only to compute. The names are exported from the module alone.

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
    // Never freed, as the module is there until the page is gone; so it can be borrowed by one function, not
    // by a copy of it in each export.
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

/// Passes the message of a panic to the script, before the module stops.
#[cfg(target_arch = "wasm32")]
fn watch_panics() {
    std::panic::set_hook(Box::new(|info| {
        let message = info.to_string();
        // SAFETY: the script reads the text before it returns.
        unsafe { panic(message.as_ptr(), message.len()) };
    }));
}

/// Runs what libc has to do first: it makes a thread of the caller. That something calls the constructors
/// says that the module is no program of a single call, which would end after each.
#[cfg(target_os = "wasi")]
#[unsafe(no_mangle)]
pub extern "C" fn _initialize() {
    unsafe extern "C" {
        fn __wasi_init_tp();
        fn __wasm_call_ctors();
    }
    // SAFETY: the script calls it once, before anything else.
    unsafe {
        __wasi_init_tp();
        __wasm_call_ctors();
    }
}

fn module() -> RefMut<'static, Module> {
    MODULE.with(|module| module.borrow_mut())
}

/// Returns an id, or -1 with the error as output.
fn answer(f: impl FnOnce(&mut Module) -> Result<usize>) -> i32 {
    let mut module = module();
    let result = f(&mut module);
    module.answer(result)
}

/// Returns 0 with a text as output, or -1 with the error.
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

/// # Safety
/// There are so many elements at the address, and the script changes them only between calls.
unsafe fn slice<'a, T>(at: *const T, count: usize) -> &'a [T] {
    // SAFETY: the caller says so; no elements may be at any address.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, count) } }
}

/// Allocates room for bytes, aligned by 8.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn alloc(bytes: usize) -> *mut u64 {
    let mut room = Vec::new();
    if room.try_reserve_exact(bytes.div_ceil(8)).is_err() {
        return std::ptr::null_mut();
    }
    room.resize(bytes.div_ceil(8), 0_u64);
    Box::leak(room.into_boxed_slice()).as_mut_ptr()
}

/// Gives room back.
///
/// # Safety
/// It is from [`alloc`], of so many bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn dealloc(at: *mut u64, bytes: usize) {
    // SAFETY: the caller says so.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, bytes.div_ceil(8))) });
}

/// Returns the address of the last call's output.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn output_ptr() -> *const u8 {
    module().output.as_ptr()
}

/// Returns the number of bytes of the output.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn output_len() -> usize {
    module().output.len()
}

/// Interns a text.
///
/// # Safety
/// There are so many bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn text(at: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller says so.
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

/// Interns f32 elements.
///
/// # Safety
/// There are so many bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn blob(at: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller says so.
    let elements: Arc<[f32]> = unsafe { slice(at, bytes) }
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    answer(|module| {
        module.commands.blobs.push(elements);
        Ok(module.commands.blobs.len() - 1)
    })
}

/// Runs a command: see `commands.rs`.
///
/// # Safety
/// There are so many numbers.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn command(code: u32, at: *const f64, count: usize) -> i32 {
    // SAFETY: the caller says so.
    let numbers = unsafe { slice(at, count) };
    answer(|module| module.commands.run(code, numbers))
}

/// Describes the type of a tensor of the open trace: returns its rank; the output is dtype and extents as
/// u32s.
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

/// Forgets texts, blobs, models and traces, but no sessions and programs.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn reset() {
    module().commands = Commands::default();
}

/// Gives back a trace (kind 0), a program (1) or a session (2).
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
/// There are so many numbers.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn limits(at: *const f64, count: usize) -> i32 {
    // SAFETY: the caller says so.
    let list = unsafe { slice(at, count) };
    answer(|module| module.sessions.limit(&mut Arguments::new(&module.commands, 0, list)))
}

/// Sets how many threads programs on the CPU take, this one included; before the first session.
#[cfg(feature = "cpu")]
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn threads(count: usize) {
    module().sessions.threads = count;
}

/// Opens a session over the current model.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn session(seed_low: u32, seed_high: u32, device: u32, precision: u32) -> i32 {
    let seed = u64::from(seed_low) | u64::from(seed_high) << 32;
    answer(|module| module.sessions.open(&module.commands, seed, device, precision))
}

/// Takes a trace: a program is made of it once.
fn trace(module: &mut Module, id: usize) -> Result<crate::commands::Trace> {
    let trace = module.commands.traces.get_mut(id).and_then(Option::take);
    trace.ok_or_else(|| Error::new(ErrorKind::Internal, "there is no such trace"))
}

/// Compiles a training program; the numbers say the optimizer.
///
/// # Safety
/// There are so many numbers.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn train(session: usize, of: usize, at: *const f64, count: usize) -> i32 {
    // SAFETY: the caller says so.
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

/// Returns the number under which the script knows a program's kernels; -1 without an error if it does not.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn described(program: usize) -> i32 {
    module().sessions.described(program).ok().flatten().map_or(-1, |number| number as i32)
}

/// Sets the data of an input.
///
/// # Safety
/// There are so many bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn feed(program: usize, input: usize, at: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller says so.
    let bytes = unsafe { slice(at, bytes) };
    answer(|module| module.sessions.feed(program, input, bytes))
}

/// Queues a step of training, or a run of a forward program.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn step(program: usize) -> i32 {
    answer(|module| module.sessions.step(program))
}

/// Returns the ticket of a step's results; -1 if they are there.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn ticket(step: usize) -> i32 {
    module().sessions.ticket(step).ok().flatten().map_or(-1, |ticket| ticket as i32)
}

/// Takes a step's results.
///
/// # Safety
/// There are so many bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn deliver(step: usize, at: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller says so.
    let bytes = unsafe { slice(at, bytes) }.to_vec();
    answer(|module| module.sessions.deliver(step, bytes))
}

/// Returns the result of a step, as JSON.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn result(step: usize) -> i32 {
    tell(|module| module.sessions.result(step))
}

/// Forgets a step.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn drop_step(step: usize) {
    module().sessions.drop_step(step);
}

/// Sets the learning rate: whether its schedule is counted from the next step on, and the schedule.
///
/// # Safety
/// There are so many numbers.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn rate(program: usize, at: *const f64, count: usize) -> i32 {
    // SAFETY: the caller says so.
    let list = unsafe { slice(at, count) };
    answer(|module| module.sessions.rate(program, &mut Arguments::new(&module.commands, 0, list)))
}

/// Returns the learning rate of the next step; NaN for a program that does not train.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn lr(program: usize) -> f64 {
    module().sessions.lr(program).unwrap_or(f64::NAN)
}

/// Steps that a training program attempted; NaN for a program that does not train.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn attempted(program: usize) -> f64 {
    module().sessions.attempted(program).map_or(f64::NAN, |steps| steps as f64)
}

/// Goes on counting attempted steps from here.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn count_from(program: usize, steps: f64) -> i32 {
    answer(|module| module.sessions.count_from(program, steps as u64))
}

/// Returns a trace, of which no program was made yet, as JSON.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn graph(of: usize) -> i32 {
    tell(|module| {
        let trace = module.commands.traces.get(of).and_then(Option::as_ref);
        let trace = trace.ok_or_else(|| Error::new(ErrorKind::Internal, "there is no such trace"))?;
        Ok(report::graph(&trace.traced))
    })
}

/// Returns the places of parameters and states, as JSON.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn store(session: usize) -> i32 {
    tell(|module| module.sessions.store(session))
}

/// Replaces parameters and states: triples of a text, an address and a number of bytes.
///
/// # Safety
/// There are so many triples, and at each address so many bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn upload(session: usize, strict: u32, at: *const u32, count: usize) -> i32 {
    // SAFETY: the caller says so.
    let triples = unsafe { slice(at, 3 * count) };
    answer(|module| {
        let mut given = Vec::with_capacity(count);
        for triple in triples.chunks_exact(3) {
            let name = module.commands.texts.get(triple[0] as usize);
            let name = name.ok_or_else(|| Error::new(ErrorKind::Internal, "there is no such text"))?;
            // SAFETY: the caller says so.
            given
                .push((name.as_str(), unsafe { slice(triple[1] as usize as *const u8, triple[2] as usize) }));
        }
        module.sessions.upload(session, strict != 0, &given)
    })
}

/// Makes initial values of a session that were left out, unless the script gives all parameters now.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn fill(session: usize, is_given: u32) -> i32 {
    answer(|module| module.sessions.fill(session, is_given != 0))
}

/// Sets parts of a session back: of the sum `parts`, 1 is the parameters, 2 the model's states, 4 the
/// optimizer.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn reset_session(session: usize, parts: u32) -> i32 {
    answer(|module| module.sessions.reset(session, [1, 2, 4].map(|part| parts & part != 0)))
}

/// Looks at a program: 0 the graph as traced, 1 after the passes, 2 the plan as JSON, 3 kernels as JSON, 4
/// numbers as JSON, 5 unused parameters as JSON.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn inspect(program: usize, what: u32) -> i32 {
    tell(|module| module.sessions.inspect(program, what))
}

/// Says that the GPU is lost.
///
/// # Safety
/// There are so many bytes.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub unsafe extern "C" fn lose(at: *const u8, bytes: usize) {
    // SAFETY: the caller says so.
    let why = String::from_utf8_lossy(unsafe { slice(at, bytes) });
    module().sessions.lose(&why);
}
