//! NVTX ranges on the timeline of NVIDIA's profilers.
//!
//! In: the text of a range. Out: a guard that ends the range. Without a profiler, a range costs nothing,
//! because the library is opened only if `NVTX_INJECTION64_PATH` is set, as profilers such as Nsight Systems
//! do ("NVTX C API reference", initialization). The library is opened from the file in `GRADLOOM_NVTX`, then
//! from the same places as CUDA's other libraries.

use super::library::library;
use gradloom_codegen::cuda::nvrtc::places;
use std::ffi::{CString, c_char, c_int};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Environment variable that contains the path of the library, if it is not in one of the usual places.
const VARIABLE: &str = "GRADLOOM_NVTX";

library! {
    push = b"nvtxRangePushA": fn(*const c_char) -> c_int;
    pop = b"nvtxRangePop": fn() -> c_int;
}

fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    let open = || {
        std::env::var_os("NVTX_INJECTION64_PATH")?;
        let names = [("nvtx3interop", ["1"]), ("nvToolsExt", ["1"])];
        Functions::open(names.iter().flat_map(|(name, versions)| places(VARIABLE, name, versions)))
    };
    FUNCTIONS.get_or_init(open).as_ref()
}

/// A range, which ends on drop. It is not `Send`, because ranges belong to a thread.
pub(super) struct Range(&'static Functions, PhantomData<*const ()>);

/// Begins a range on this thread, if a profiler is running the process.
pub(super) fn range(text: impl FnOnce() -> String) -> Option<Range> {
    let functions = functions()?;
    let text = CString::new(text()).ok()?;
    // SAFETY: the text is NUL-terminated, and the library copies it.
    unsafe { (functions.push)(text.as_ptr()) };
    Some(Range(functions, PhantomData))
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: a range of this thread is open.
        unsafe { (self.0.pop)() };
    }
}
