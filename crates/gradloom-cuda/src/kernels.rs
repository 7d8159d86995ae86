//! Kernels: compiled by NVIDIA's compiler, cached in the user's cache folder, loaded on the device.
//!
//! In: source code of kernels. Out: functions of the device. Invariant: a kernel is compiled once for a
//! source, compiler, flags and architecture; a damaged cache file is ignored; a problem with the cache is
//! never an error.

use super::driver::{Driver, Function, Module};
use super::gpu::Gpu;
use super::kept::Kept;
use gradloom_codegen::cuda::nvrtc::{Compiled, FLAGS, Nvrtc, VARIABLE};
use gradloom_core::error::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(super) trait Compiler: fmt::Debug + Send + Sync {
    /// Returns the compiler's name and version, which distinguish it from other compilers.
    fn version(&self) -> String;
    /// Compiles a kernel to machine code.
    ///
    /// # Errors
    /// Returns the compiler's messages if it rejects the source.
    fn compile(&self, source: &str, architecture: &str) -> std::result::Result<Compiled, String>;
}

impl Compiler for Nvrtc {
    fn version(&self) -> String {
        let (major, minor) = self.version();
        format!("NVRTC {major}.{minor}")
    }

    fn compile(&self, source: &str, architecture: &str) -> std::result::Result<Compiled, String> {
        self.compile(source, architecture)
    }
}

pub(super) struct Kernels {
    compiler: OnceLock<Option<Arc<dyn Compiler>>>,
    kept: Kept,
    /// Loaded kernels by their source code.
    loaded: Mutex<HashMap<String, (Module, Function)>>,
    /// Number of bytes of machine code found in the cache.
    pub(super) found: AtomicUsize,
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels").field("kept", &self.kept).finish_non_exhaustive()
    }
}

/// The source code of a kernel, and the name of its function.
pub(super) type Text<'t> = (&'t str, &'t str);

impl Kernels {
    /// Creates an empty set of kernels. Unless `compiler` is given, NVRTC is opened when the first kernel is
    /// compiled.
    pub(super) fn new(kept: Kept, compiler: Option<Arc<dyn Compiler>>) -> Self {
        let known = OnceLock::new();
        if compiler.is_some() {
            let _ = known.set(compiler);
        }
        Self { compiler: known, kept, loaded: Mutex::default(), found: AtomicUsize::new(0) }
    }

    /// Returns the functions of kernels, in order.
    ///
    /// # Errors
    /// Returns an error if there is no compiler, the compiler rejects a kernel, or the device cannot load it;
    /// `blame` adds the origin of the kernel with a given index.
    pub(super) fn get(
        &self,
        gpu: &Gpu,
        texts: &[Text<'_>],
        blame: impl Fn(usize, Error) -> Error,
    ) -> Result<Vec<Function>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing: Vec<usize> = Vec::new();
        for (i, (source, _)) in texts.iter().enumerate() {
            if !loaded.contains_key(*source) && !missing.iter().any(|&j| texts[j].0 == *source) {
                missing.push(i);
            }
        }
        let sources: Vec<&str> = missing.iter().map(|&i| texts[i].0).collect();
        for (&i, cubin) in missing.iter().zip(self.cubins(gpu, &sources)?) {
            let (source, name) = texts[i];
            let cubin = cubin.map_err(|messages| {
                let message = format!("NVIDIA's compiler refuses the kernel `{name}`: {messages}");
                let help = "this is a mistake of gradloom; please report it with the messages";
                blame(i, Error::new(ErrorKind::Internal, message).help(help))
            })?;
            let load = |driver: &dyn Driver| {
                let module = driver.load(&cubin)?;
                let function = driver.function(module, name).inspect_err(|_| driver.unload(module))?;
                Ok((module, function))
            };
            let kernel = gpu.ask("load a kernel", load).map_err(|error| blame(i, error))?;
            loaded.insert(source.to_string(), kernel);
        }
        Ok(texts.iter().map(|(source, _)| loaded[*source].1).collect())
    }

    /// Returns the machine code of kernels from the cache or the compiler.
    fn cubins(&self, gpu: &Gpu, sources: &[&str]) -> Result<Vec<std::result::Result<Vec<u8>, String>>> {
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let architecture = gpu.architecture();
        let compiler = self.compiler()?;
        let key = |source: &str| format!("{}\n{architecture}\n{FLAGS:?}\n{source}", compiler.version());
        let make = |source: &str| {
            let key = key(source);
            if let Some(cubin) = self.kept.read("cubin", &key) {
                self.found.fetch_add(cubin.len(), Ordering::Relaxed);
                return Ok(cubin);
            }
            let cubin = compiler.compile(source, &architecture)?.cubin;
            self.kept.write("cubin", &key, &cubin);
            Ok(cubin)
        };
        Ok(in_threads(sources, make))
    }

    /// Checks that there is a compiler.
    ///
    /// # Errors
    /// Returns an error if the compiler is not found.
    pub(super) fn check_compiler(&self) -> Result<()> {
        self.compiler().map(|_| ())
    }

    /// Returns the compiler, opening it on first use.
    ///
    /// # Errors
    /// Returns an error if the compiler is not found.
    fn compiler(&self) -> Result<&Arc<dyn Compiler>> {
        let open = || Nvrtc::open().map(|nvrtc| Arc::new(nvrtc) as Arc<dyn Compiler>);
        self.compiler.get_or_init(open).as_ref().ok_or_else(no_compiler)
    }

    /// Unloads all kernels from the device, which must not be using any.
    pub(super) fn unload(&self, driver: &dyn Driver) {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.drain().for_each(|(_, (module, _))| driver.unload(module));
    }
}

/// Returns the error for a machine without NVIDIA's compiler.
pub(super) fn no_compiler() -> Error {
    Error::new(ErrorKind::Device, "NVIDIA's runtime compiler (NVRTC) is not on this machine").help(format!(
        "install CUDA 12 or newer, or the Python package `nvidia-cuda-nvrtc`, and name its file in {VARIABLE} if \
         it is not where the system looks for libraries"
    ))
}

/// Applies a function to all sources in parallel, on at most one thread per core. Returns the results in
/// order.
fn in_threads<T: Send>(sources: &[&str], f: impl Fn(&str) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::default();
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = sources.get(i) else { break };
            let value = f(source);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((i, value));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(sources.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, value)| value).collect()
}
