//! Attention whose kernels are selected by measurement. The choices must be correct, stored, and used by
//! programs.

use crate::attention::{Extents, check};
use crate::not_webgpu;
use gradloom::WgpuDevice as _;
use gradloom::testing::{WgpuOverrides, overriding};
use gradloom_codegen::wgsl::Dispatch;
use gradloom_runtime::Device;
use gradloom_wgpu::{Tuning, WgpuOptions};
use std::path::Path;
use std::sync::Mutex;

/// Extents that are large enough to be measured and have several choices on a software device.
const EXTENTS: Extents = [2, 3, 3, 128, 128, 16, 16];

/// Returns options for the adapter under test, with its own limits, kernels modified by `dispatch`, and
/// choices stored in a folder.
fn options(folder: &Path, dispatch: fn(&mut Dispatch)) -> WgpuOptions {
    overridden(folder, WgpuOverrides { dispatch: Some(dispatch), ..WgpuOverrides::default() })
}

fn overridden(folder: &Path, overrides: WgpuOverrides) -> WgpuOptions {
    let options = WgpuOptions::default().adapter(gradloom_testing::adapter::name()).software();
    overriding(options, overrides).tuned(folder)
}

/// Compiles attention and its gradient on a newly opened device, compares the results with the reference, and
/// returns the measurements made.
#[track_caller]
fn tuned(options: &WgpuOptions) -> Tuning {
    let device = Device::wgpu_with(options).unwrap_or_else(|error| panic!("{error}"));
    check(&device, EXTENTS, ", causal", 0, 0);
    device.tuning().expect("it was asked for")
}

/// Returns `true` if the device under test is a software device, which has other and more choices.
fn software(tuning: &Tuning) -> bool {
    std::fs::read_to_string(&tuning.file).unwrap().contains("software: true")
}

#[test]
fn attention_is_measured_once_and_kept() {
    if not_webgpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = tuned(&options(folder.path(), |_| {}));
    assert_eq!((first.read, first.measured, first.notes.len()), (0, 3, 0), "{first:?}");
    let text = std::fs::read_to_string(&first.file).unwrap();
    for kernel in ["forward", "queries", "keys"] {
        let line = format!("\nattention {kernel} causal 0.25 2 3 3 128 128 16 16 : ");
        assert_eq!(text.matches(&line).count(), 1, "{text}");
    }
    let again = tuned(&options(folder.path(), |_| {}));
    assert_eq!((again.read, again.measured, again.notes.len()), (3, 0, 0), "{again:?}");
    assert_eq!(std::fs::read_to_string(&again.file).unwrap(), text);
}

/// Attention over a cache is measured with all keys present. Its gradient is not measured.
#[test]
fn attention_over_a_cache_is_measured() {
    if not_webgpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let device = Device::wgpu_with(&options(folder.path(), |_| {})).unwrap();
    check(&device, [1, 4, 2, 60, 200, 16, 24], ", causal, query_offset, key_length", 90, 150);
    let tuning = device.tuning().unwrap();
    assert_eq!((tuning.measured, tuning.notes.len()), (1, 0), "{tuning:?}");
    let kept = std::fs::read_to_string(&tuning.file).unwrap();
    assert!(
        kept.contains("attention forward causal query_offset key_length 0.25 1 4 2 60 200 16 24 : "),
        "{kept}"
    );
}

/// Software devices take minutes to compile tiles that their own limits would not select, so these are only
/// tested if `GRADLOOM_EVERY_BLOCK` is set.
#[test]
fn blocks_in_workgroup_memory_are_measured() {
    if not_webgpu() || std::env::var_os("GRADLOOM_EVERY_BLOCK").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let overrides = WgpuOverrides {
        limits: Some(|limits| (limits.software, limits.scalar) = (false, false)),
        ..WgpuOverrides::default()
    };
    let options = || overridden(folder.path(), overrides.clone());
    let first = tuned(&options());
    assert_eq!((first.read, first.measured, first.notes.len()), (0, 3, 0), "{first:?}");
    let again = tuned(&options());
    assert_eq!((again.read, again.measured, again.notes.len()), (3, 0, 0), "{again:?}");
}

/// Source code of the attention kernels that were compiled since the list was last taken.
static TEXTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn remember(dispatch: &mut Dispatch) {
    if dispatch.label.starts_with("attention") {
        TEXTS.lock().unwrap().push(dispatch.source.clone());
    }
}

#[test]
fn a_program_runs_the_choice_of_the_file() {
    if not_webgpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = tuned(&options(folder.path(), |_| {})).file;
    let kept = std::fs::read_to_string(&file).unwrap();
    let with = |choice: &str| {
        let lines = kept.lines().map(|line| match line.split_once(" : ") {
            Some((problem, _)) => format!("{problem} : {choice}\n"),
            None => format!("{line}\n"),
        });
        std::fs::write(&file, lines.collect::<String>()).unwrap();
        TEXTS.lock().unwrap().clear();
        let tuning = tuned(&options(folder.path(), remember));
        let texts = std::mem::take(&mut *TEXTS.lock().unwrap());
        (tuning, texts)
    };
    let choices =
        if kept.contains("software: true") { ["own 1", "own 2"] } else { ["own 1", "block 1 4 8 4"] };
    let [(_, one), (_, other)] = choices.map(|choice| {
        let (tuning, texts) = with(choice);
        assert_eq!((tuning.read, tuning.measured, tuning.notes.len()), (3, 0, 0), "{tuning:?}");
        assert_eq!(texts.len(), 3);
        (tuning, texts)
    });
    assert!(one.iter().zip(&other).all(|(a, b)| a != b), "other choices are other kernels");
    // A choice that the device does not support makes the file invalid, like a malformed line.
    for wrong in ["own 0", "own"] {
        let (tuning, _) = with(wrong);
        assert_eq!((tuning.read, tuning.measured, tuning.notes.len()), (0, 3, 1), "{tuning:?}");
        assert!(tuning.notes[0].contains("it is damaged"), "{tuning:?}");
    }
}

/// Returns `true` for a forward attention kernel whose invocations compute fewer rows than the rule selects
/// on a software device.
fn is_meant(dispatch: &Dispatch) -> bool {
    // The source contains one logarithm per row.
    dispatch.label == "attention" && dispatch.source.matches("log(").count() < 4
}

#[test]
fn a_kernel_with_wrong_values_or_none_is_not_chosen() {
    if not_webgpu() {
        return;
    }
    let wrong = |dispatch: &mut Dispatch| {
        if is_meant(dispatch) {
            dispatch.source = dispatch.source.replacen("(1.0f / ", "(1.1f / ", 1);
        }
    };
    let refused = |dispatch: &mut Dispatch| {
        if is_meant(dispatch) {
            dispatch.source += "fn broken( {";
        }
    };
    let unfinished = |dispatch: &mut Dispatch| {
        if is_meant(dispatch) {
            dispatch.workgroups[0] -= 1;
        }
    };
    // On other devices, the defect may affect the rule's choice, with which the others are compared.
    if !software(&tuned(&options(tempfile::tempdir().unwrap().path(), |_| ()))) {
        gradloom_testing::skip::skip("this adapter has other choices", None);
        return;
    }
    for (defect, said) in [(wrong as fn(&mut Dispatch), 1), (refused, 0), (unfinished, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let tuning = tuned(&options(folder.path(), defect));
        assert_eq!((tuning.measured, tuning.notes.len()), (3, said), "{tuning:?}");
        if let [note] = &tuning.notes[..] {
            let expected = "2 of 3 ways to compute `attention` of 2x3 heads, 128 queries, 128 keys, depth 16 \
                            give other values";
            assert!(note.starts_with(expected), "{note}");
        }
        let kept = std::fs::read_to_string(&tuning.file).unwrap();
        assert!(kept.contains("attention forward causal 0.25 2 3 3 128 128 16 16 : own 4\n"), "{kept}");
    }
}
