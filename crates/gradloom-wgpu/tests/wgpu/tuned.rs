//! Attention whose kernels are selected by measurement. The choices must be correct, stored, and used by
//! programs.

use crate::attention::{Extents, check};
use crate::not_webgpu;
use gradloom::WgpuDevice as _;
use gradloom::testing::{WgpuOverrides, overriding};
use gradloom_codegen::wgsl::Dispatch;
use gradloom_codegen::wgsl::attention::{self, Kernel, Tile};
use gradloom_codegen::wgsl::tuning::{Choice, Problem};
use gradloom_core::ir::AttentionSpec;
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

/// Returns the start of a kernel's line in the file.
fn line(kernel: Kernel, extents: Extents, is_cached: bool) -> String {
    let [batch, heads, key_heads, queries, keys, depth, value_depth] = extents;
    let spec = AttentionSpec {
        causal: true,
        scale: 0.25,
        query_offset: is_cached,
        key_length: is_cached,
        ..AttentionSpec::default()
    };
    let problem = attention::Problem { spec, batch, heads, key_heads, queries, keys, depth, value_depth };
    format!("\n{:?} : ", Problem::Attention(kernel, problem))
}

/// Returns a choice as it is written in the file.
fn written(choice: attention::Choice) -> String {
    format!("{:?}", Choice::Attention(choice))
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
    for kernel in Kernel::ALL {
        assert_eq!(text.matches(&line(kernel, EXTENTS, false)).count(), 1, "{text}");
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
    let extents = [1, 4, 2, 60, 200, 16, 24];
    check(&device, extents, ", causal, query_offset, key_length", 90, 150);
    let tuning = device.tuning().unwrap();
    assert_eq!((tuning.measured, tuning.notes.len()), (1, 0), "{tuning:?}");
    let kept = std::fs::read_to_string(&tuning.file).unwrap();
    assert!(kept.contains(&line(Kernel::Forward, extents, true)), "{kept}");
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
    let other = match kept.contains("software: true") {
        true => attention::Choice::Own { rows: 2 },
        false => attention::Choice::Block(Tile::new(1, 4, 8, 4)),
    };
    let [(_, one), (_, other)] = [attention::Choice::Own { rows: 1 }, other].map(|choice| {
        let (tuning, texts) = with(&written(choice));
        assert_eq!((tuning.read, tuning.measured, tuning.notes.len()), (3, 0, 0), "{tuning:?}");
        assert_eq!(texts.len(), 3);
        (tuning, texts)
    });
    assert!(one.iter().zip(&other).all(|(a, b)| a != b), "other choices are other kernels");
    // A choice that is none of the candidates is measured again, and replaced.
    for wrong in [written(attention::Choice::Own { rows: 0 }), "own".to_string()] {
        let (tuning, _) = with(&wrong);
        assert_eq!((tuning.read, tuning.measured, tuning.notes.len()), (0, 3, 0), "{tuning:?}");
        assert!(!std::fs::read_to_string(&file).unwrap().contains(&format!(" : {wrong}\n")));
    }
    // Lines of problems that no program has had since are kept.
    let other = "Product(Another) : Product(Choice)\n";
    let more = kept.replace("end 3\n", &format!("{other}end 4\n"));
    std::fs::write(&file, more.replacen(" : Attention(", " : Unknown(", 1)).unwrap();
    let tuning = tuned(&options(folder.path(), |_| {}));
    assert_eq!((tuning.read, tuning.measured, tuning.notes.len()), (2, 1, 0), "{tuning:?}");
    assert!(std::fs::read_to_string(&file).unwrap().contains(other));
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
        let rule = line(Kernel::Forward, EXTENTS, false) + &written(attention::Choice::Own { rows: 4 });
        assert!(kept.contains(&(rule + "\n")), "{kept}");
    }
}
