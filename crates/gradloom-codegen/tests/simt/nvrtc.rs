//! Test that NVIDIA's runtime compiler accepts the CUDA C of every kernel, for sm_80 and sm_90a.

use super::{custom, ops};
use gradloom_codegen::cuda;
use gradloom_testing::nvrtc;

#[test]
fn nvidias_compiler_takes_every_kernel() {
    let Some(library) = nvrtc::library() else { return };
    let wrong = "extern \"C\" __global__ void f(float* x) { x[0] = y; }";
    assert!(library.compile(wrong, "sm_80").unwrap_err().contains("undefined"));
    let kernels = ops::every_kernel();
    let mut texts: Vec<String> = kernels
        .iter()
        .enumerate()
        .map(|(i, kernel)| cuda::print(kernel, &format!("kernel_{i}"), i, &|_| true).0)
        .collect();
    texts.extend(custom::cuda_texts());
    // All kernels are one text, because creating a program takes longer than compiling a kernel.
    nvrtc::check(&library, texts.iter().map(String::as_str));
    assert!(texts.len() > 60, "{} kernels", texts.len());
    eprintln!("{} kernels compiled for sm_80 and sm_90a", texts.len());
}
