//! Checkpoints: they come back as they were written, and no damage goes unnoticed.

use gradloom_core::ir::{DType, Type};
use gradloom_models::checkpoint::{Checkpoint, CheckpointError, Entries, TensorBytes, write};
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

    /// What opening and checking the given bytes gives.
    fn load(&self, bytes: &[u8]) -> Result<(), CheckpointError> {
        fs::write(self.path(), bytes).unwrap();
        Checkpoint::open(&self.path())?.exactly(self.expected()).map(drop)
    }
}

#[test]
fn round_trip() {
    let fixture = Fixture::new();
    fixture.write();
    let checkpoint = Checkpoint::open(&fixture.path()).unwrap();
    let tensors = checkpoint.exactly(fixture.expected()).unwrap();
    for ((name, ty, bytes), written) in tensors.into_iter().zip(&fixture.tensors) {
        assert_eq!((name, ty, bytes), (written.0, &written.1, written.2.as_slice()));
    }
    assert_eq!(checkpoint.parsed_entry::<u64>("step").unwrap(), 7);
    assert_eq!(checkpoint.entry("config").unwrap(), fixture.entries["config"]);
    let missing = checkpoint.entry("nothing").unwrap_err().to_string();
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
        let told = matches!(error, CheckpointError::Truncated { .. });
        assert!(told, "{length} of {} bytes: {error}", bytes.len());
        assert!(error.to_string().contains("model.safetensors"));
    }
    let longer = [bytes.as_slice(), b"x"].concat();
    assert!(matches!(fixture.load(&longer), Err(CheckpointError::Truncated { .. })));
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
    assert!(matches!(error, CheckpointError::Checksum { .. }));
    assert!(error.to_string().ends_with("the file is damaged: its contents do not match their checksum"));
    assert_eq!(error.remedy(), "restore the file from a copy, or train again");
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
    assert!(matches!(error, CheckpointError::Foreign { .. }));
    let text = error.to_string();
    let expected = "the file was not written by gradloom (missing: applied_step, flags, image and 3 more; \
                    unknown: a, b, c and 1 more; mis-shaped: h.0.weight is f32[3, 2] and not f32[2, 3])";
    assert!(text.ends_with(expected), "{text}");
    assert!(matches!(
        Checkpoint::open(&fixture.path()).unwrap().entry("step"),
        Err(CheckpointError::Foreign { .. })
    ));
}

#[test]
fn another_models_file_is_told_apart() {
    let fixture = Fixture::new();
    fixture.write();
    let checkpoint = Checkpoint::open(&fixture.path()).unwrap();
    let ty = Type::new(DType::F32, [2, 4]);
    let error = checkpoint.exactly([("h.0.weight", &ty)]).unwrap_err();
    assert!(matches!(&error, CheckpointError::OtherModel { differences, .. }
        if differences.unknown.len() == 6
            && differences.mismatched.len() == 1
            && differences.missing.is_empty()));
}

#[test]
fn what_is_no_safetensors_file_is_told() {
    let fixture = Fixture::new();
    let text = "this is prose, and its first eight bytes are no length".repeat(3);
    assert!(matches!(fixture.load(text.as_bytes()), Err(CheckpointError::Malformed { .. })));
    let json = [&13u64.to_le_bytes()[..], b"{\"a\": \"b\" }  "].concat();
    assert!(matches!(fixture.load(&json), Err(CheckpointError::Malformed { .. })));
    let missing = Checkpoint::open(&fixture.folder.path().join("none")).unwrap_err();
    assert!(matches!(missing, CheckpointError::Read { .. }));
}

/// What stands in a header may be any number: the sum of sizes must not overflow, and nothing is read or
/// reserved on its word.
#[test]
fn sizes_that_no_file_has_are_refused_at_once() {
    let fixture = Fixture::new();
    for bytes in [u64::MAX, u64::MAX - 100, i64::MAX as u64, 1 << 40] {
        let header = format!(r#"{{"a":{{"dtype":"U8","shape":[{bytes}],"data_offsets":[0,{bytes}]}}}}"#);
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        fs::write(fixture.path(), file).unwrap();
        assert!(Checkpoint::open(&fixture.path()).is_err());
        fs::write(fixture.path(), bytes.to_le_bytes()).unwrap();
        assert!(Checkpoint::open(&fixture.path()).is_err());
    }
    // A terabyte of nothing, which takes no place on the disk.
    fs::File::create(fixture.path()).unwrap().set_len(1 << 40).unwrap();
    assert!(Checkpoint::open(&fixture.path()).is_err());
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_without_waiting() {
    let fixture = Fixture::new();
    assert!(std::process::Command::new("mkfifo").arg(fixture.path()).status().unwrap().success());
    let error = Checkpoint::open(&fixture.path()).unwrap_err();
    assert!(error.to_string().ends_with("cannot be read: it is a named pipe, not a regular file"), "{error}");
    assert_eq!(error.remedy(), "put a regular file in its place, or name another one");
}
