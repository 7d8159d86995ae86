//! Shaders in `tests/files/wgsl`, reviewed by eye. `UPDATE=1 cargo test -p gradloom-codegen` writes them
//! anew.

use super::{adapters, checked, graph};
use std::path::Path;

/// Compares the only shader of a graph for the large GPU with a file.
#[track_caller]
fn is_as_reviewed(name: &str, lines: &str) {
    let [_, _, large, _] = adapters();
    let shaders = checked(&graph(lines), &large);
    let [shader, _] = &shaders[..] else { panic!("{} shaders", shaders.len()) };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/files/wgsl").join(name);
    let text = format!("// {:?} workgroups\n{}", shader.workgroups, shader.source);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == reviewed, "{} has changed; look at it with UPDATE=1\n{text}", path.display());
}

/// Operands are read as vectors of four, rounded on the way to workgroup memory, and the epilogue has the sum
/// in f32; rows beyond the last are not stored.
#[test]
fn a_product_in_f16_with_an_epilogue() {
    is_as_reviewed(
        "product-f16.wgsl",
        "%0: f32[70, 128] = input \"x\"\n%1: f32[128, 64] = param \"w\"\n%2: f32[64] = param \"b\"\n\
         %3: f32[70, 64] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}\n%4: f32[1, 64] = reshape %2\n\
         %5: f32[70, 64] = broadcast %4\n%6: f32[70, 64] = add %3, %5\noutput \"y\" %6",
    );
}
