//! NVIDIA's runtime compiler, NVRTC, which compiles CUDA C to machine code. It needs no GPU.
//!
//! In: the text of a kernel, and an architecture such as `sm_90a`. Out: a cubin, or the compiler's messages.
//! The library is loaded on first use: from the path in `GRADLOOM_NVRTC`, from the system's library paths, or
//! from CUDA's directories. The functions and their types are those of NVRTC's documentation.

use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
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
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

/// Compiler options in addition to the architecture. They disable the contraction of float operations.
pub const FLAGS: [&str; 1] = ["--fmad=false"];

/// Environment variable with the path of the library.
pub const VARIABLE: &str = "GRADLOOM_NVRTC";

/// NVRTC library, which threads may use concurrently.
#[derive(Debug)]
pub struct Nvrtc {
    library: Library,
    version: (i32, i32),
}

/// Result of a compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Machine code.
    pub cubin: Vec<u8>,
    /// Warnings of the compiler.
    pub messages: String,
}

impl Nvrtc {
    /// Loads the library; returns `None` if it is not found.
    pub fn open() -> Option<Self> {
        // SAFETY: initializing NVIDIA's library is sound.
        let open = |path: PathBuf| unsafe { Library::new(path) }.ok();
        let library = places(VARIABLE, "nvrtc", &["13", "12"]).into_iter().find_map(open)?;
        let mut nvrtc = Self { library, version: (0, 0) };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function has this type, and writes two integers.
        let known = unsafe { nvrtc.function::<Version>(b"nvrtcVersion")?(&raw mut major, &raw mut minor) };
        nvrtc.version = if known == 0 { (major, minor) } else { return None };
        Some(nvrtc)
    }

    /// Returns the compiler's version, such as (12, 9).
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    fn function<F>(&self, name: &[u8]) -> Option<Symbol<'_, F>> {
        // SAFETY: callers pass the documented type of each function.
        unsafe { self.library.get(name) }.ok()
    }

    /// Compiles a text for an architecture, such as `sm_90a`.
    ///
    /// # Errors
    /// Returns an error with the compiler's messages if it rejects the text, or with a description if the
    /// text has a zero byte or the library lacks a function.
    pub fn compile(&self, source: &str, architecture: &str) -> Result<Compiled, String> {
        self.compile_with(source, architecture, &[])
    }

    /// Compiles a text, as [`Nvrtc::compile`] does, with further options of the compiler.
    ///
    /// # Errors
    /// Same as [`Nvrtc::compile`].
    ///
    /// # Panics
    /// Panics if an option has a zero byte.
    pub fn compile_with(
        &self,
        source: &str,
        architecture: &str,
        options: &[&str],
    ) -> Result<Compiled, String> {
        let missing = || "the compiler's library lacks a function".to_string();
        let create = self.function::<Create>(b"nvrtcCreateProgram").ok_or_else(missing)?;
        let run = self.function::<Compile>(b"nvrtcCompileProgram").ok_or_else(missing)?;
        let log_size = self.function::<Size>(b"nvrtcGetProgramLogSize").ok_or_else(missing)?;
        let log = self.function::<Text>(b"nvrtcGetProgramLog").ok_or_else(missing)?;
        let cubin_size = self.function::<Size>(b"nvrtcGetCUBINSize").ok_or_else(missing)?;
        let cubin_bytes = self.function::<Text>(b"nvrtcGetCUBIN").ok_or_else(missing)?;
        let destroy = self.function::<Destroy>(b"nvrtcDestroyProgram").ok_or_else(missing)?;

        let text = CString::new(source).map_err(|_| "the text has a zero byte".to_string())?;
        let options: Vec<CString> = FLAGS
            .iter()
            .chain(options)
            .map(|flag| CString::new(*flag).expect("flags have no zero byte"))
            .chain(CString::new(format!("--gpu-architecture={architecture}")))
            .collect();
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).expect("they are few");
        let bytes_of = |program: Program, size: &Size, get: &Text| {
            let mut bytes = 0;
            // SAFETY: the program exists, and the function writes the size of its text to `bytes`.
            let mut all = match unsafe { size(program, &raw mut bytes) } {
                0 => vec![0_u8; bytes],
                _ => return Vec::new(),
            };
            // SAFETY: the program exists, and `all` has as many bytes as the function writes.
            if unsafe { get(program, all.as_mut_ptr().cast()) } != 0 {
                all.clear();
            }
            all
        };
        let mut program = ptr::null_mut();
        // SAFETY: the strings and the list of options outlive the calls, and the lists of headers may be null
        // because they are empty. The program is used only if it was created, and not after it is destroyed.
        unsafe {
            let name = c"kernel.cu".as_ptr();
            let made = create(&raw mut program, text.as_ptr(), name, 0, ptr::null(), ptr::null());
            if made != 0 {
                return Err(format!("the compiler takes no text (error {made})"));
            }
            let result = run(program, count, pointers.as_ptr());
            let mut messages = bytes_of(program, &log_size, &log);
            messages.push(0);
            let messages = CStr::from_bytes_until_nul(&messages).unwrap_or_default().to_string_lossy();
            let messages = messages.trim().to_string();
            let cubin = if result == 0 { bytes_of(program, &cubin_size, &cubin_bytes) } else { Vec::new() };
            destroy(&raw mut program);
            match (result, cubin.is_empty()) {
                (0, false) => Ok(Compiled { cubin, messages }),
                (0, true) => Err(format!("no machine code came out for {architecture} {messages}")),
                (_, _) if messages.is_empty() => Err(format!("error {result} of the compiler")),
                _ => Err(messages),
            }
        }
    }
}

/// Returns candidate paths of one of CUDA's libraries, in the order in which to try them: the path in an
/// environment variable, the system's library paths, and CUDA's directories.
pub fn places(variable: &str, name: &str, versions: &[&str]) -> Vec<PathBuf> {
    let file = |version: &str| match (cfg!(windows), version) {
        (true, "") => format!("{name}64.dll"),
        // The names of these files contain the first minor version of the major version.
        (true, version) if name == "nvrtc" => format!("{name}64_{version}0_0.dll"),
        (true, version) => format!("{name}64_{version}.dll"),
        (false, "") => format!("lib{name}.so"),
        (false, version) => format!("lib{name}.so.{version}"),
    };
    let files: Vec<String> = versions.iter().copied().chain([""]).map(file).collect();
    let named = std::env::var_os(variable).map(PathBuf::from);
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let homes = homes.chain((!cfg!(windows)).then(|| PathBuf::from("/usr/local/cuda")));
    let folders = homes.flat_map(|home| ["lib64", "lib", "bin"].map(|folder| home.join(folder)));
    let in_folders =
        folders.flat_map(|folder| files.iter().map(move |file| folder.join(file)).collect::<Vec<_>>());
    named.into_iter().chain(files.iter().map(PathBuf::from)).chain(in_folders).collect()
}
