//! NVIDIA's runtime compiler takes the CUDA C of every kernel, for sm_80 and sm_90a.
//!
//! Its library is looked for where `GRADLOOM_NVRTC` says, then where the system has libraries; without it
//! the test says that it is skipped, or fails if `GRADLOOM_NEEDS_NVRTC` is set.

use super::ops;
use gradloom_codegen::cuda;
use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// The library, if it can be had.
fn library() -> Option<Library> {
    let named = std::env::var("GRADLOOM_NVRTC").ok();
    let names = ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so"];
    // SAFETY: what NVIDIA's library does when it is loaded is sound.
    let open = |name: &str| unsafe { Library::new(name) }.ok();
    named.iter().map(String::as_str).chain(names).find_map(open)
}

/// Compiles a text for an architecture; the compiler's messages if it refuses.
fn compile(library: &Library, source: &str, architecture: &str) -> Result<(), String> {
    // SAFETY: the functions have these types (NVRTC's documentation, "Compilation"); all pointers are to
    // strings that live until the calls return, and the log's buffer has the size that was asked for.
    unsafe {
        let create: Symbol<'_, Create> = library.get(b"nvrtcCreateProgram").map_err(|e| e.to_string())?;
        let run: Symbol<'_, Compile> = library.get(b"nvrtcCompileProgram").map_err(|e| e.to_string())?;
        let size: Symbol<'_, Size> = library.get(b"nvrtcGetProgramLogSize").map_err(|e| e.to_string())?;
        let log: Symbol<'_, Text> = library.get(b"nvrtcGetProgramLog").map_err(|e| e.to_string())?;
        let destroy: Symbol<'_, Destroy> = library.get(b"nvrtcDestroyProgram").map_err(|e| e.to_string())?;
        let text = CString::new(source).unwrap();
        let options = [format!("--gpu-architecture={architecture}"), "--fmad=false".into()];
        let options = options.map(|option| CString::new(option).unwrap());
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = ptr::null_mut();
        let name = c"kernel.cu".as_ptr();
        assert_eq!(create(&raw mut program, text.as_ptr(), name, 0, ptr::null(), ptr::null()), 0);
        let result = run(program, c_int::try_from(pointers.len()).unwrap(), pointers.as_ptr());
        let mut bytes = 0;
        assert_eq!(size(program, &raw mut bytes), 0);
        let mut messages = vec![0 as c_char; bytes.max(1)];
        assert_eq!(log(program, messages.as_mut_ptr()), 0);
        destroy(&raw mut program);
        let messages = CStr::from_ptr(messages.as_ptr()).to_string_lossy().into_owned();
        // A warning is a mistake of the printer, too.
        if result == 0 && !messages.contains("warning") { Ok(()) } else { Err(messages) }
    }
}

#[test]
fn nvidias_compiler_takes_every_kernel() {
    let Some(library) = library() else {
        assert!(std::env::var_os("GRADLOOM_NEEDS_NVRTC").is_none(), "NVRTC is not here");
        eprintln!("skipped: NVRTC is not here");
        return;
    };
    let wrong = "extern \"C\" __global__ void f(float* x) { x[0] = y; }";
    assert!(compile(&library, wrong, "sm_80").unwrap_err().contains("undefined"));
    // One text for all: making a compiler's program takes longer than compiling a kernel.
    let kernels = ops::every_kernel();
    let mut source = String::new();
    for (i, kernel) in kernels.iter().enumerate() {
        let text = cuda::print(kernel, &format!("kernel_{i}"), i);
        source.push_str(&format!("namespace part_{i} {{\n{text}}}\n"));
    }
    let count = kernels.len();
    for architecture in ["sm_80", "sm_90a"] {
        if let Err(messages) = compile(&library, &source, architecture) {
            panic!("{architecture}: {messages}\n{source}");
        }
    }
    assert!(count > 60, "{count} kernels");
    eprintln!("{count} kernels compiled for sm_80 and sm_90a");
}
