//! Tests that checkpoints are read back unchanged, and that any damage is detected.

use gradloom_core::error::{Error, ErrorKind};
use gradloom_core::ir::{DType, Type};
use gradloom_runtime::files::{Entries, TensorBytes, Weights, write};
use safetensors::tensor::{SafeTensors, TensorView};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

struct Fixture {
    folder: TempDir,
    tensors: Vec<(&'static str, Type, Vec<u8>)>,
    entries: Entries,
}

impl Fixture {
    fn new() -> Self {
        let tensors = vec![
            ("h.0.weight", Type::new(DType::F32, [2, 3]), (0..24).collect()),
            ("applied_step", Type::scalar(DType::I32), vec![7, 0, 0, 0]),
            ("flags", Type::new(DType::Bool, [3]), vec![1, 0, 1]),
            ("image", Type::new(DType::U8, [5]), vec![0, 255, 128, 127, 1]),
            ("ids", Type::new(DType::I64, [2]), [i64::MIN, (1 << 32) + 1].map(i64::to_le_bytes).concat()),
            ("empty", Type::new(DType::F32, [0, 5]), vec![]),
            ("another_empty", Type::new(DType::F32, [0]), vec![]),
        ];
        let entries = [("step", "7"), ("config", r#"{"lr":0.1,"name":"ü\n"}"#)];
        let entries = entries.map(|(k, v)| (k.to_string(), v.to_string())).into();
        Self { folder: tempfile::tempdir().unwrap(), tensors, entries }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("model.safetensors")
    }

    fn write(&self) -> Vec<u8> {
        let tensors: Vec<_> =
            self.tensors.iter().map(|(name, ty, bytes)| TensorBytes { name, ty, bytes }).collect();
        write(&self.path(), &tensors, &self.entries).unwrap();
        fs::read(self.path()).unwrap()
    }

    fn expected(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.tensors.iter().map(|(name, ty, _)| (*name, ty))
    }

    /// Opens the given bytes as a checkpoint, and checks them.
    fn load(&self, bytes: &[u8]) -> Result<(), Error> {
        fs::write(self.path(), bytes).unwrap();
        let file = Weights::open(self.path())?;
        file.exactly(self.expected())?;
        file.entry("step").map(drop)
    }
}

#[test]
fn round_trip() {
    let fixture = Fixture::new();
    fixture.write();
    let checkpoint = Weights::open(fixture.path()).unwrap();
    let tensors = checkpoint.exactly(fixture.expected()).unwrap();
    for ((name, ty, bytes), written) in tensors.into_iter().zip(&fixture.tensors) {
        assert_eq!((name, ty, bytes), (written.0, &written.1, written.2.as_slice()));
    }
    assert_eq!(checkpoint.parsed_entry::<u64>("step").unwrap(), 7);
    assert_eq!(checkpoint.entry("config").unwrap(), fixture.entries["config"]);
    let missing = checkpoint.entry("nothing").unwrap_err().message().to_string();
    assert!(missing.ends_with("model.safetensors: the metadata entry nothing is missing"), "{missing}");
}

#[test]
fn the_same_contents_give_the_same_bytes() {
    let mut fixture = Fixture::new();
    let bytes = fixture.write();
    fixture.tensors.reverse();
    assert_eq!(fixture.write(), bytes);
}

#[test]
fn any_safetensors_reader_opens_it() {
    let fixture = Fixture::new();
    let bytes = fixture.write();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("h.0.weight").unwrap().shape(), [2, 3]);
    assert_eq!(file.tensor("h.0.weight").unwrap().data(), fixture.tensors[0].2);
    assert_eq!(file.len(), 7);
}

#[test]
fn every_truncation_is_noticed() {
    let fixture = Fixture::new();
    let bytes = fixture.write();
    for length in 0..bytes.len() {
        let error = fixture.load(&bytes[..length]).unwrap_err();
        let told = if length == 0 { "the file is empty" } else { "the file is truncated or damaged" };
        let told = error.message().contains(&format!("model.safetensors: {told}"));
        assert!(told && error.kind() == ErrorKind::File, "{length} of {} bytes: {error}", bytes.len());
    }
    let longer = [bytes.as_slice(), b"x"].concat();
    assert!(fixture.load(&longer).unwrap_err().message().contains("the file is truncated or damaged"));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let fixture = Fixture::new();
    let bytes = fixture.write();
    assert!(fixture.load(&bytes).is_ok());
    for position in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1 << bit;
            assert!(fixture.load(&damaged).is_err(), "bit {bit} of byte {position} goes unnoticed");
        }
    }
}

#[test]
fn a_flip_in_the_data_is_told_as_damage() {
    let fixture = Fixture::new();
    let mut bytes = fixture.write();
    *bytes.last_mut().unwrap() ^= 1;
    let error = fixture.load(&bytes).unwrap_err();
    assert!(error.message().ends_with("the file is damaged: its contents do not match their checksum"));
    assert!(error.remedies().eq(["get the file once more from where it came, or restore it from a copy"]));
}

#[test]
fn a_foreign_file_is_told_apart() {
    let fixture = Fixture::new();
    let view = |shape: Vec<usize>| {
        let bytes = vec![0; 4 * shape.iter().product::<usize>()].leak();
        TensorView::new(safetensors::Dtype::F32, shape, bytes).unwrap()
    };
    let names = ["a", "b", "c", "d", "h.0.weight"];
    let views = names.map(|name| (name, view(if name == "a" { vec![1] } else { vec![3, 2] })));
    let bytes = safetensors::serialize(views, None).unwrap();
    let error = fixture.load(&bytes).unwrap_err();
    let expected = "the file is of another model (missing: applied_step, flags, image and 3 more; unknown: \
                    a, b, c and 1 more; mis-shaped: h.0.weight is f32[3, 2] and not f32[2, 3])";
    assert!(error.message().ends_with(expected), "{error}");
    let file = Weights::open(fixture.path()).unwrap();
    assert!(!file.is_verified());
    let error = file.entry("step").unwrap_err();
    assert!(error.message().ends_with("the file was not written by gradloom"), "{error}");
}

#[test]
fn another_models_file_is_told_apart() {
    let fixture = Fixture::new();
    fixture.write();
    let checkpoint = Weights::open(fixture.path()).unwrap();
    let ty = Type::new(DType::F32, [2, 4]);
    let differences = checkpoint.differences(&[("h.0.weight", &ty)]);
    assert_eq!((differences.unknown.len(), differences.mismatched.len()), (6, 1));
    assert!(differences.missing.is_empty());
    assert!(checkpoint.exactly([("h.0.weight", &ty)]).unwrap_err().message().contains("of another model"));
}

#[test]
fn what_is_no_safetensors_file_is_told() {
    let fixture = Fixture::new();
    let text = "this is prose, and its first eight bytes are no length".repeat(3);
    let error = fixture.load(text.as_bytes()).unwrap_err();
    assert!(error.message().ends_with("the file is text, and no safetensors file"), "{error}");
    let json = [&13u64.to_le_bytes()[..], b"{\"a\": \"b\" }  "].concat();
    assert!(is_malformed(&fixture.load(&json)));
    let missing = Weights::open(fixture.folder.path().join("none")).unwrap_err();
    assert!(missing.message().contains("none: cannot be read: "), "{missing}");
    assert!(missing.remedies().eq(["check the path"]));
}

fn is_malformed(loaded: &Result<(), Error>) -> bool {
    loaded
        .as_ref()
        .is_err_and(|error| error.message().contains("the file is no safetensors file, or its header"))
}

/// The error for an invalid header names the tensor.
#[test]
fn a_damaged_header_names_the_tensor() {
    let fixture = Fixture::new();
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#""h.1.bias":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}"#)
    };
    let cases = [
        (entry(r#""F33""#, "[2]", "[0,8]"), r#"the dtype of `h.1.bias` is "F33""#),
        (entry(r#""F32""#, "[-2]", "[0,8]"), "the shape of `h.1.bias` is [-2]"),
        (entry(r#""F32""#, "[2]", "[0]"), "the data_offsets of `h.1.bias` is [0]"),
        (entry(r#""F32""#, "[3]", "[0,8]"), "`h.1.bias` is F32[3] and lies from 0 to 8"),
        (entry(r#""F32""#, "[2]", "[8,16]"), "`h.1.bias` lies from 8, and what is before it ends at 0"),
        (r#""h.1.bias":{"dtype":"F32"}"#.to_string(), "the shape of `h.1.bias` is missing"),
        (entry(r#""F32""#, "[4294967296,4294967296]", "[0,8]"), "`h.1.bias` is F32[4294967296, 4294967296]"),
    ];
    for (entry, expected) in cases {
        let header = format!("{{{entry}}}");
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat();
        let error = fixture.load(&file).unwrap_err();
        assert!(error.message().contains(expected), "{error}\n not: {expected}");
        assert_eq!(
            Weights::from_bytes(file).unwrap_err().message().split_once(": ").unwrap().0,
            "the file in memory"
        );
    }
}

/// A header may contain any number: the sum of sizes must not overflow, and must not cause reads or
/// allocations.
#[test]
fn sizes_that_no_file_has_are_refused_at_once() {
    let fixture = Fixture::new();
    for bytes in [u64::MAX, u64::MAX - 100, i64::MAX as u64, 1 << 40] {
        let header = format!(r#"{{"a":{{"dtype":"U8","shape":[{bytes}],"data_offsets":[0,{bytes}]}}}}"#);
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        fs::write(fixture.path(), file).unwrap();
        assert!(Weights::open(fixture.path()).is_err());
        fs::write(fixture.path(), bytes.to_le_bytes()).unwrap();
        assert!(Weights::open(fixture.path()).is_err());
    }
    // Create a sparse file of one terabyte, which takes no space on the disk.
    fs::File::create(fixture.path()).unwrap().set_len(1 << 40).unwrap();
    assert!(Weights::open(fixture.path()).is_err());
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_without_waiting() {
    let fixture = Fixture::new();
    assert!(std::process::Command::new("mkfifo").arg(fixture.path()).status().unwrap().success());
    let error = Weights::open(fixture.path()).unwrap_err();
    assert!(error.message().ends_with("cannot be read: it is a named pipe, not a regular file"), "{error}");
    assert!(error.remedies().eq(["put a regular file in its place, or name another one"]));
}
