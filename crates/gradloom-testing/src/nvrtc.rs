//! NVIDIA's runtime compiler, for tests of CUDA C.
//!
//! Its library is looked for where `GRADLOOM_NVRTC` says, then where the system has libraries.

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

/// The compiler's library.
pub struct Nvrtc(Library);

/// The library, if it can be had; says that the test is skipped if it cannot.
///
/// # Panics
/// When it cannot be had though `GRADLOOM_NEEDS_NVRTC` is set.
pub fn library() -> Option<Nvrtc> {
    let named = std::env::var("GRADLOOM_NVRTC").ok();
    let names = ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so"];
    // SAFETY: what NVIDIA's library does when it is loaded is sound.
    let open = |name: &str| unsafe { Library::new(name) }.ok();
    let found = named.iter().map(String::as_str).chain(names).find_map(open);
    if found.is_none() {
        assert!(std::env::var_os("GRADLOOM_NEEDS_NVRTC").is_none(), "NVRTC is not here");
        eprintln!("skipped: NVRTC is not here");
    }
    found.map(Nvrtc)
}

impl Nvrtc {
    /// Compiles kernels, each in a namespace of its own as their helper functions have equal names, for sm_80
    /// and sm_90a.
    ///
    /// # Panics
    /// With the compiler's messages if it refuses them, or warns.
    pub fn check<'t>(&self, texts: impl IntoIterator<Item = &'t str>) {
        let mut source = String::new();
        for (i, text) in texts.into_iter().enumerate() {
            source.push_str(&format!("namespace part_{i} {{\n{text}}}\n"));
        }
        for architecture in ["sm_80", "sm_90a"] {
            if let Err(messages) = self.compile(&source, architecture) {
                panic!("{architecture}: {messages}\n{source}");
            }
        }
    }

    /// Compiles a text for an architecture.
    ///
    /// # Errors
    /// The compiler's messages if it refuses, or warns.
    ///
    /// # Panics
    /// When the text has a zero, or the library does not do what its documentation says.
    pub fn compile(&self, source: &str, architecture: &str) -> Result<(), String> {
        let Self(library) = self;
        // SAFETY: the functions have these types (NVRTC's documentation, "Compilation"); all pointers are to
        // strings that live until the calls return, and the log's buffer has the size that was asked for.
        unsafe {
            let create: Symbol<'_, Create> = library.get(b"nvrtcCreateProgram").map_err(|e| e.to_string())?;
            let run: Symbol<'_, Compile> = library.get(b"nvrtcCompileProgram").map_err(|e| e.to_string())?;
            let size: Symbol<'_, Size> = library.get(b"nvrtcGetProgramLogSize").map_err(|e| e.to_string())?;
            let log: Symbol<'_, Text> = library.get(b"nvrtcGetProgramLog").map_err(|e| e.to_string())?;
            let destroy: Symbol<'_, Destroy> =
                library.get(b"nvrtcDestroyProgram").map_err(|e| e.to_string())?;
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
}
