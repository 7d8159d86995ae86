//! The cache of pipelines between processes, including damaged files.

use super::not_webgpu;
use gradloom::testing::WgpuOverrides;
use gradloom_core::fuse::Fusion;
use gradloom_core::nn::Linear;
use gradloom_core::trace::f32;
use gradloom_runtime::{Device, Session};
use gradloom_testing::skip::skip;
use std::fs;
use std::path::{Path, PathBuf};

fn device(folder: &Path) -> Device {
    let name = gradloom_testing::adapter::name();
    let overrides = WgpuOverrides { cache: Some(folder.to_path_buf()), ..WgpuOverrides::default() };
    gradloom::testing::wgpu_overriding(&name, overrides, Fusion::SumsApart).unwrap()
}

fn results(device: &Device) -> Vec<u32> {
    let session = Session::new(Linear::new(5, 7), device, 1).unwrap();
    let mut program = session.infer([f32("x", [4, 5])], |layer, [x]| layer.forward(x).gelu()).unwrap();
    program.run([&[0.25f32; 20]]).unwrap().into_iter().map(f32::to_bits).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("pipelines")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns `true`, and reports that the test is skipped, if the driver does not support the cache.
fn unkept(device: &Device) -> bool {
    let none = device.kept_bytes().is_none();
    if none {
        skip(&format!("the driver of {} does not keep pipelines", device.description()), None);
    }
    none
}

#[test]
fn a_second_device_finds_what_the_first_one_made() {
    if not_webgpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = device(folder.path());
    let expected = results(&first);
    if unkept(&first) {
        assert!(files(folder.path()).is_empty());
        return;
    }
    assert_eq!(first.kept_bytes(), Some(0));
    let [file] = &files(folder.path())[..] else { panic!("one file, whole") };
    let size = fs::metadata(file).unwrap().len() as usize;

    let second = device(folder.path());
    let found = second.kept_bytes().unwrap();
    assert!(found > 0 && found < size, "{found} of {size} bytes");
    assert_eq!(results(&second), expected);
}

#[test]
fn a_damaged_file_is_ignored_and_replaced() {
    if not_webgpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = device(folder.path());
    let expected = results(&first);
    if unkept(&first) {
        return;
    }
    let file = files(folder.path()).remove(0);
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    let mut version = whole.clone();
    version[7] += 1;
    for damaged in [Vec::new(), b"{}".to_vec(), whole[..whole.len() - 1].to_vec(), flipped, version] {
        fs::write(&file, &damaged).unwrap();
        let device = device(folder.path());
        assert_eq!(device.kept_bytes(), Some(0));
        assert_eq!(results(&device), expected);
        let again = self::device(folder.path());
        assert!(again.kept_bytes() > Some(0), "it was written again");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_no_error() {
    if not_webgpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Create a file with the name of the cache folder, so that the cache cannot be written.
    let place = folder.path().join("taken");
    fs::write(&place, "").unwrap();
    let device = device(&place);
    assert_eq!(results(&device), results(&device));
    assert_eq!(fs::read(&place).unwrap(), b"");
}
