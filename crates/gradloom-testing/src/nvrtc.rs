//! NVIDIA's runtime compiler, for tests of CUDA C.

use crate::skip::skip;
use gradloom_codegen::cuda::nvrtc::Nvrtc;

/// Returns the compiler if there is one; otherwise says that the test is skipped.
///
/// # Panics
/// When it cannot be had though `GRADLOOM_NEEDS_NVRTC` is set.
pub fn library() -> Option<Nvrtc> {
    let found = Nvrtc::open();
    if found.is_none() {
        skip("NVIDIA's runtime compiler is not here", Some("GRADLOOM_NEEDS_NVRTC"));
    }
    found
}

/// Compiles kernels, each in a namespace of its own as their helper functions have equal names, for sm_80
/// and sm_90a.
///
/// # Panics
/// With the compiler's messages if it refuses them, or warns.
pub fn check<'t>(library: &Nvrtc, texts: impl IntoIterator<Item = &'t str>) {
    let mut source = String::new();
    for (i, text) in texts.into_iter().enumerate() {
        // A function of C linkage is the same in all namespaces.
        let (before, bounds) = text.split_once("__launch_bounds__(").expect("a kernel has bounds");
        let named = bounds.replacen(") ", &format!(") part_{i}_"), 1);
        source.push_str(&format!("namespace part_{i} {{\n{before}__launch_bounds__({named}}}\n"));
    }
    for architecture in ["sm_80", "sm_90a"] {
        // A warning is a mistake of the printer, too.
        match library.compile(&source, architecture) {
            Ok(made) if !made.messages.contains("warning") => {}
            Ok(made) => panic!("{architecture}: {}\n{source}", made.messages),
            Err(messages) => panic!("{architecture}: {messages}\n{source}"),
        }
    }
}
