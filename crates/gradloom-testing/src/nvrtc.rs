//! Access to NVIDIA's runtime compiler for tests of CUDA C.

use crate::skip::skip;
use gradloom_codegen::cuda::nvrtc::Nvrtc;

/// Returns the compiler. If it is not installed, records that the test is skipped, and returns `None`.
///
/// # Panics
/// Panics if it is not installed but `GRADLOOM_NEEDS_NVRTC` is set.
pub fn library() -> Option<Nvrtc> {
    let found = Nvrtc::open();
    if found.is_none() {
        skip("NVIDIA's runtime compiler is not here", Some("GRADLOOM_NEEDS_NVRTC"));
    }
    found
}

/// Compiles kernels for sm_80 and sm_90a. Each is in a separate namespace, because their helper functions
/// have the same names.
///
/// # Panics
/// Panics with the compiler's messages if there is an error or a warning.
pub fn check<'t>(library: &Nvrtc, texts: impl IntoIterator<Item = &'t str>) {
    let mut source = String::new();
    for (i, text) in texts.into_iter().enumerate() {
        // Rename each function, because functions with C linkage are shared by all namespaces.
        let (before, bounds) = text.split_once("__launch_bounds__(").expect("a kernel has bounds");
        let named = bounds.replacen(") ", &format!(") part_{i}_"), 1);
        source.push_str(&format!("namespace part_{i} {{\n{before}__launch_bounds__({named}}}\n"));
    }
    for architecture in ["sm_80", "sm_90a"] {
        // Reject warnings, too, because they indicate a bug in the printer.
        match library.compile(&source, architecture) {
            Ok(made) if !made.messages.contains("warning") => {}
            Ok(made) => panic!("{architecture}: {}\n{source}", made.messages),
            Err(messages) => panic!("{architecture}: {messages}\n{source}"),
        }
    }
}
