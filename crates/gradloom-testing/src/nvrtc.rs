//! Access to NVIDIA's runtime compiler for tests of CUDA C.

use crate::skip::skip;
use gradloom_codegen::cuda::nvrtc::Nvrtc;
use std::collections::HashSet;

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

/// Compiles kernels for sm_80, and for sm_90a one kernel of each set of inline assembly. Nothing else in a
/// text depends on the architecture. Kernels with products of warpgroups are compiled for sm_90a only, with
/// optimization.
///
/// # Panics
/// Panics with the compiler's messages if there is an error or a warning, or if the assembler serializes
/// products of warpgroups.
pub fn check<'t>(library: &Nvrtc, texts: impl IntoIterator<Item = &'t str>) {
    let (of_warpgroups, texts): (Vec<&str>, Vec<&str>) =
        texts.into_iter().partition(|text| text.contains("wgmma"));
    let mut seen = HashSet::new();
    let assembly = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("asm")).map(|line| line.trim().to_string()).collect()
    };
    let distinct: Vec<&str> = texts.iter().copied().filter(|text| seen.insert(assembly(text))).collect();
    compile(library, &texts, "sm_80");
    compile(library, &distinct, "sm_90a");
    for text in of_warpgroups {
        match library.compile_with(text, "sm_90a", &["--ptxas-options=-v"]) {
            Ok(made) if !["warning", "(C75"].iter().any(|what| made.messages.contains(what)) => {}
            Ok(made) => panic!("{}\n{text}", made.messages),
            Err(messages) => panic!("{messages}\n{text}"),
        }
    }
}

/// Compiles kernels. Each is in a separate namespace, because their helper functions have the same names.
fn compile(library: &Nvrtc, texts: &[&str], architecture: &str) {
    // The time of a compilation grows faster than its text.
    for texts in texts.chunks(50) {
        let mut source = String::new();
        for (i, text) in texts.iter().enumerate() {
            // Rename each function, because functions with C linkage are shared by all namespaces.
            let (before, bounds) = text.split_once("__launch_bounds__(").expect("a kernel has bounds");
            let named = bounds.replacen(") ", &format!(") part_{i}_"), 1);
            source.push_str(&format!("namespace part_{i} {{\n{before}__launch_bounds__({named}}}\n"));
        }
        // Unoptimized machine code is as strict and takes less time. Warnings indicate a bug in the printer.
        match library.compile_with(&source, architecture, &["--ptxas-options=-O0"]) {
            Ok(made) if !made.messages.contains("warning") => {}
            Ok(made) => panic!("{architecture}: {}\n{source}", made.messages),
            Err(messages) => panic!("{architecture}: {messages}\n{source}"),
        }
    }
}
