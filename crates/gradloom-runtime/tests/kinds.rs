//! Tests that files of every common kind are recognized by their bytes, under any name.

use gradloom_runtime::Weights;
use gradloom_runtime::files::FileKind;
use gradloom_testing::Random;

/// Returns a local file header of a zip archive: the name, followed by some bytes.
fn entry(name: &str) -> Vec<u8> {
    let mut bytes = b"PK\x03\x04".to_vec();
    bytes.resize(26, 0);
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend(name.as_bytes());
    bytes.extend([7; 40]);
    bytes
}

fn safetensors() -> Vec<u8> {
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2], &[0; 8]).unwrap();
    safetensors::serialize([("w", view)], None).unwrap()
}

fn tar() -> Vec<u8> {
    let mut bytes = b"pickle".to_vec();
    bytes.resize(257, 0);
    bytes.extend(b"ustar\x0000");
    bytes.resize(1024, 0);
    bytes
}

/// Returns sample files, as the corresponding programs write them.
fn samples() -> Vec<(&'static str, FileKind, Vec<u8>)> {
    let torch = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00";
    vec![
        ("nothing", FileKind::Empty, vec![]),
        ("safetensors", FileKind::Safetensors, safetensors()),
        ("gguf", FileKind::Gguf, b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
        ("ggml", FileKind::Ggml, b"tjgg\x03\0\0\0\0\x7d\0\0".to_vec()),
        ("torch 2", FileKind::TorchZip, entry("archive/data.pkl")),
        ("torch 1.6", FileKind::TorchZip, [entry("net/version"), entry("net/data.pkl")].concat()),
        (
            "TorchScript",
            FileKind::TorchZip,
            [entry("m/code/__torch__.py"), entry("m/constants.pkl")].concat(),
        ),
        ("torch 1.5", FileKind::TorchPickle, torch.to_vec()),
        ("pickle 4", FileKind::Pickle, b"\x80\x04\x95\x0b\0\0\0\0\0\0\0}\x94".to_vec()),
        ("pickle 2", FileKind::Pickle, b"\x80\x02}q\x00X\x01\0\0\0wq\x01".to_vec()),
        ("pickle 0", FileKind::Pickle, b"(dp0\nS'w'\np1\n".to_vec()),
        ("npz", FileKind::Npz, entry("wte.npy")),
        ("npy", FileKind::Npy, b"\x93NUMPY\x01\0v\0{'descr': '<f4'".to_vec()),
        ("keras", FileKind::Keras, [entry("metadata.json"), entry("config.json")].concat()),
        ("zip", FileKind::Zip, entry("readme.txt")),
        ("empty zip", FileKind::Zip, b"PK\x05\x06\0\0\0\0".to_vec()),
        ("hdf5", FileKind::Hdf5, b"\x89HDF\r\n\x1a\n\0\0\0\0".to_vec()),
        ("tar", FileKind::Tar, tar()),
        ("gzip", FileKind::Packed("gzip"), b"\x1f\x8b\x08\0\0\0\0\0".to_vec()),
        ("xz", FileKind::Packed("xz"), b"\xfd7zXZ\0\0\x04".to_vec()),
        ("bzip2", FileKind::Packed("bzip2"), b"BZh91AY&SY\x01".to_vec()),
        ("words in brackets", FileKind::Text, b"(lp 3, side A) BZh".to_vec()),
        ("zstd", FileKind::Packed("zstd"), b"\x28\xb5\x2f\xfd\x04\0".to_vec()),
        ("onnx", FileKind::Onnx, b"\x08\x08\x12\x07pytorch\x1a\x05".to_vec()),
        ("tflite", FileKind::TensorFlowLite, b"\x1c\0\0\0TFL3\x14\0".to_vec()),
        ("lfs", FileKind::LfsPointer, b"version https://git-lfs.github.com/spec/v1\noid".to_vec()),
        ("page", FileKind::Html, b"\n<!DOCTYPE html>\n<html lang=en>".to_vec()),
        ("json", FileKind::Json, b"{\n  \"model_type\": \"gpt2\"}".to_vec()),
        ("json list", FileKind::Json, b"[{\"a\": 1}]".to_vec()),
        ("cut json", FileKind::Json, b"{\"a\": [1, 2".to_vec()),
        ("text", FileKind::Text, b"to be, or not to be".to_vec()),
        ("toml", FileKind::Text, b"[training]\nlr = 0.1\n".to_vec()),
        ("a dictionary of Python", FileKind::Text, b"{'a': 1}".to_vec()),
        ("umlauts", FileKind::Text, "größer".as_bytes().to_vec()),
        ("a picture", FileKind::Other, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec()),
        ("zeros", FileKind::Other, vec![0; 100]),
    ]
}

#[test]
fn every_kind_is_told_by_its_bytes() {
    for (name, kind, bytes) in samples() {
        assert_eq!(FileKind::of(&bytes), kind, "{name}");
        assert!(!kind.to_string().is_empty() && !kind.remedy().is_empty(), "{name}");
        // A remedy contains no library call, because those are useless to users of the command line.
        assert!(!kind.remedy().contains('`') && !kind.remedy().contains('('), "{name}");
    }
}

/// Appended bytes do not change the kind, and no call panics on a truncated file.
#[test]
fn more_bytes_change_no_kind() {
    let mut random = Random(3);
    let mut told = 0;
    for (name, kind, bytes) in samples() {
        if bytes.is_empty() || matches!(kind, FileKind::Text | FileKind::Json | FileKind::Other) {
            continue;
        }
        for _ in 0..200 {
            let more = (0..random.below(300)).map(|_| random.below(256) as u8);
            let longer: Vec<u8> = bytes.iter().copied().chain(more).collect();
            let found = FileKind::of(&longer);
            // Accept `Other` for HTML, because appended bytes may make the text invalid.
            assert!(found == kind || kind == FileKind::Html && found == FileKind::Other, "{name}: {found:?}");
            FileKind::of(&longer[..random.below(longer.len())]);
            told += 1;
        }
    }
    println!("{told} files");
}

/// Opening a file of another kind as weights reports its kind, under any name.
#[test]
fn weights_of_another_kind_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    for (name, kind, bytes) in samples() {
        std::fs::write(&path, &bytes).unwrap();
        let opened = [Weights::open(&path), Weights::from_bytes(bytes)];
        for opened in opened {
            let error = match (opened, kind) {
                (Ok(_), FileKind::Safetensors) => continue,
                (Ok(_), _) => panic!("{name} was opened"),
                (Err(error), _) => error,
            };
            let told = match kind {
                FileKind::Empty => "the file is empty".to_string(),
                FileKind::Other => "the file is".to_string(),
                kind => format!("the file is {kind}, and no safetensors file"),
            };
            assert!(error.message().contains(&told), "{name}: {error}");
            assert_eq!(error.remedies().count(), 1, "{name}: {error}");
        }
    }
    // The error for a folder names the weights of another kind in it.
    let other = tempfile::tempdir().unwrap();
    let named = |other: &tempfile::TempDir| Weights::open(other.path()).unwrap_err().to_string();
    assert!(named(&other).contains("no safetensors file in this folder\n"), "{}", named(&other));
    std::fs::write(other.path().join("pytorch_model.bin"), entry("archive/data.pkl")).unwrap();
    let error = named(&other);
    assert!(error.contains("its pytorch_model.bin is a zip archive of PyTorch's torch.save"), "{error}");
}
