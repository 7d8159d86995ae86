//! Ranges on the timeline of NVIDIA's tools (NVTX), while one of them runs the process.
//!
//! In: the text of a range. Out: a guard, with which it ends. Costs nothing where no tool is there: it sets
//! `NVTX_INJECTION64_PATH` ("NVTX C API reference", initialisation), as Nsight Systems does. The library is
//! looked for where `GRADLOOM_NVTX` says, then as the others of CUDA are.

use gradloom_codegen::cuda::nvrtc::places;
use libloading::Library;
use std::ffi::{CString, c_char, c_int};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// The environment's variable with the library's file, if it is in none of the usual places.
const VARIABLE: &str = "GRADLOOM_NVTX";

struct Functions {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
    _library: Library,
}

fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    let open = || {
        std::env::var_os("NVTX_INJECTION64_PATH")?;
        let names = [("nvtx3interop", ["1"]), ("nvToolsExt", ["1"])];
        let places = names.iter().flat_map(|(name, versions)| places(VARIABLE, name, versions));
        // SAFETY: what NVIDIA's library does when it is loaded is sound.
        let library = places.into_iter().find_map(|place| unsafe { Library::new(place) }.ok())?;
        // SAFETY: the types are those of "nvToolsExt.h", and the library stays with the functions.
        let (push, pop) =
            unsafe { (*library.get(b"nvtxRangePushA\0").ok()?, *library.get(b"nvtxRangePop\0").ok()?) };
        Some(Functions { push, pop, _library: library })
    };
    FUNCTIONS.get_or_init(open).as_ref()
}

/// A range, which ends when this is dropped, on the same thread.
pub(super) struct Range(&'static Functions, PhantomData<*const ()>);

/// Begins a range of this thread, if a tool is there to see it.
pub(super) fn range(text: impl FnOnce() -> String) -> Option<Range> {
    let functions = functions()?;
    let text = CString::new(text()).ok()?;
    // SAFETY: the text ends with a zero and is copied.
    unsafe { (functions.push)(text.as_ptr()) };
    Some(Range(functions, PhantomData))
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: a range of this thread is open.
        unsafe { (self.0.pop)() };
    }
}
