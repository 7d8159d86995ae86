//! Kernels that the device rejects, which are defects: the error must name the kernel and the user's line.

use super::not_webgpu;
use gradloom::testing::WgpuOverrides;
use gradloom_codegen::wgsl::Dispatch;
use gradloom_core::error::{Error, ErrorKind};
use gradloom_core::fuse::Fusion;
use gradloom_core::nn::Linear;
use gradloom_core::trace::{Tensor, f32};
use gradloom_runtime::{Infer, Session};

/// Compiles a program on a device that modifies a kernel. Returns the result and the source line of the
/// kernel's op.
fn compile(dispatch: fn(&mut Dispatch)) -> (Result<Infer<1, Tensor>, Error>, u32) {
    let name = gradloom_testing::adapter::name();
    let overrides = WgpuOverrides { dispatch: Some(dispatch), ..WgpuOverrides::default() };
    let device = gradloom::testing::wgpu_overriding(&name, overrides, Fusion::Off).unwrap();
    let session = Session::new(Linear::new(5, 7), &device, 1).unwrap();
    let line = line!() + 1;
    let compiled = session.infer([f32("x", [4, 5])], |layer, [x]| layer.forward(x).sin());
    (compiled, line)
}

/// Returns `true` if the kernel is the one that the tests modify.
fn is_meant(dispatch: &Dispatch) -> bool {
    dispatch.label.starts_with("map [1 x 28]")
}

#[track_caller]
fn blames_the_line(dispatch: fn(&mut Dispatch), why: &str) {
    if not_webgpu() {
        return;
    }
    let (compiled, line) = compile(dispatch);
    let error = compiled.expect_err("the kernel is broken");
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Internal, "{text}");
    assert!(text.contains("refuses the kernel `map [1 x 28]"), "{text}");
    assert!(text.contains(&format!("refused.rs:{line}:")), "{text}");
    assert!(text.contains(why), "{text}");
}

#[test]
fn what_is_not_broken_runs() {
    if not_webgpu() {
        return;
    }
    let result = compile(|_| {}).0.unwrap().run([&[0.0f32; 20]]).unwrap();
    assert!(result.iter().all(|value| value.abs() <= 1.0));
}

#[test]
fn a_text_that_is_no_shader() {
    blames_the_line(
        |dispatch| {
            if is_meant(dispatch) {
                dispatch.source += "fn broken( {"
            }
        },
        "expected",
    );
}

#[test]
fn a_shader_with_a_binding_that_nobody_gives() {
    let change: fn(&mut Dispatch) = |dispatch| {
        if is_meant(dispatch) {
            dispatch.source = dispatch.source.replace("@binding(0)", "@binding(17)");
        }
    };
    blames_the_line(change, "17");
}

#[test]
fn bindings_that_do_not_fit_the_shader() {
    let change: fn(&mut Dispatch) = |dispatch| {
        if is_meant(dispatch) {
            dispatch.source = dispatch.source.replacen("array<f32>", "array<f32, 4000000>", 1);
        }
    };
    blames_the_line(change, "16000000");
}

#[test]
fn more_workgroups_than_the_device_runs() {
    blames_the_line(
        |dispatch| {
            if is_meant(dispatch) {
                dispatch.workgroups[0] = u32::MAX
            }
        },
        "4294967295",
    );
}
