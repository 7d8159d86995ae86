//! Valid and damaged headers.

use crate::builder::{Builder, array, text};
use crate::{data, refused};
use gradloom_core::error::Result;
use gradloom_models::gguf::{Gguf, TensorType, Value};
use std::collections::BTreeMap;

fn open(builder: &Builder) -> Result<Gguf> {
    Gguf::from_bytes(builder.build())
}

/// Returns the error message for a damaged file, stripped of the file's name.
#[track_caller]
fn fault(builder: &Builder) -> String {
    let message = refused(open(builder));
    message.strip_prefix("the file in memory: the file is truncated or damaged: ").unwrap().to_string()
}

#[test]
fn every_type_of_metadata() {
    let nested = array(9, &[array(5, &[(-1i32).to_le_bytes().to_vec()]), array(8, &[text("a"), text("")])]);
    let builder = Builder::new()
        .entry("u8", 0, &[200])
        .entry("i8", 1, &[200])
        .entry("u16", 2, &60_000u16.to_le_bytes())
        .entry("i16", 3, &(-3i16).to_le_bytes())
        .u32("u32", u32::MAX)
        .entry("i32", 5, &i32::MIN.to_le_bytes())
        .f32("f32", 0.1)
        .entry("bool", 7, &[1])
        .string("string", "ü")
        .entry("nested", 9, &nested)
        .entry("none", 9, &array(12, &[]))
        .entry("u64", 10, &u64::MAX.to_le_bytes())
        .entry("i64", 11, &i64::MIN.to_le_bytes())
        .entry("f64", 12, &0.1f64.to_le_bytes());
    for version in [2, 3] {
        let file = open(&builder.clone().version(version)).unwrap();
        assert_eq!(file.version(), version);
        let shown = |key: &str| format!("{:?}", file.metadata(key).unwrap());
        assert_eq!(file.keys().count(), 14);
        assert_eq!((shown("u8"), shown("i8")), ("U8(200)".into(), "I8(-56)".into()));
        assert_eq!((shown("u16"), shown("i16")), ("U16(60000)".into(), "I16(-3)".into()));
        assert_eq!((shown("u32"), shown("i32")), ("U32(4294967295)".into(), "I32(-2147483648)".into()));
        assert_eq!((shown("f32"), shown("f64")), ("F32(0.1)".into(), "F64(0.1)".into()));
        assert_eq!((shown("bool"), shown("string")), ("Bool(true)".into(), "String(\"ü\")".into()));
        let nested = "Array([Array([I32(-1)]), Array([String(\"a\"), String(\"\")])])";
        assert_eq!((shown("nested"), shown("none")), (nested.into(), "Array([])".into()));
        assert_eq!(shown("u64"), format!("U64({})", u64::MAX));
        assert_eq!(shown("i64"), format!("I64({})", i64::MIN));
        assert!(file.metadata("other").is_none());
        let Some(Value::Array(array)) = file.metadata("nested") else { panic!("an array") };
        assert_eq!((array.len(), array.is_empty(), array.iter().count()), (2, false, 2));
    }
}

#[test]
fn getters_name_key_and_types() {
    let builder = Builder::new().string("name", "x").entry("negative", 5, &(-1i32).to_le_bytes());
    let file = open(&builder.strings("list", &["a", "b"]).u32("n", 7)).unwrap();
    assert_eq!((file.get::<u32>("n").unwrap(), file.get::<u32>("m").unwrap()), (Some(7), None));
    assert_eq!((file.require::<i32>("n").unwrap(), file.require::<usize>("n").unwrap()), (7, 7));
    assert_eq!(file.require::<Vec<&str>>("list").unwrap(), ["a", "b"]);
    assert_eq!(refused(file.require::<u32>("m")), "the file in memory: the metadata has no `m`");
    let cases = [
        (
            refused(file.get::<u32>("name")),
            "`name` is of type string and not an integer from 0 to 4294967295",
        ),
        (refused(file.get::<usize>("negative")), "`negative` is of type i32 and not an integer from 0 on"),
        (refused(file.get::<&str>("n")), "`n` is of type u32 and not a string"),
        (refused(file.get::<bool>("n")), "`n` is of type u32 and not a bool"),
        (refused(file.get::<f32>("n")), "`n` is of type u32 and not a float"),
        (refused(file.get::<&str>("list")), "`list` is of type array of 2 x string and not a string"),
        (
            refused(file.get::<Vec<i32>>("list")),
            "`list` is of type array of 2 x string and not an array, each element an integer of 32 bits",
        ),
    ];
    for (message, expected) in cases {
        assert_eq!(message, format!("the file in memory: the metadata {expected}"));
    }
}

#[test]
fn tensors_are_row_major() {
    let builder = Builder::new()
        .floats("matrix", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        .floats("scalar", &[], &[7.0])
        .floats("none", &[0, 5], &[])
        .tensor("blocks", &[32, 1, 2], TensorType::Q8_0, &[1; 68]);
    let file = open(&builder).unwrap();
    let names: Vec<&str> = file.tensors().map(|tensor| tensor.name).collect();
    assert_eq!(names, ["blocks", "matrix", "none", "scalar"]);
    let matrix = file.tensor("matrix").unwrap();
    assert_eq!((matrix.shape, matrix.ty), (&[2, 3][..], TensorType::F32));
    assert_eq!(matrix.to_f32().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(file.tensor("scalar").unwrap().to_f32().unwrap(), [7.0]);
    let none = file.tensor("none").unwrap();
    assert_eq!((none.shape, none.to_f32().unwrap().len()), (&[5, 0][..], 0));
    assert_eq!(file.tensor("blocks").unwrap().shape, [2, 1, 32]);
    assert!(file.tensor("other").is_none());
}

/// The table of types matches that of the Python package, but for a size in which that differs from
/// `ggml-common.h`.
#[test]
fn every_type_of_tensors() {
    let types = std::fs::read(data("types.json")).unwrap();
    let types: BTreeMap<String, [u32; 3]> = serde_json::from_slice(&types).unwrap();
    let (all, mut unread) = (types.len(), 0);
    for (name, [number, elements, size]) in types {
        let size = if name == "Q8_1" { 36 } else { size };
        let file =
            Builder::new().info("x", &[elements.into(), 2], number, 0).data(&vec![0; 2 * size as usize]);
        let file = open(&file).unwrap();
        let x = file.tensor("x").unwrap();
        assert_eq!((x.ty.to_string(), x.bytes.len()), (name, 2 * size as usize));
        assert_eq!(x.ty.block(), (elements as usize, size as usize));
        if let Err(error) = x.to_f32() {
            let expected = format!("the tensor `x`: elements of the type {} are not read", x.ty);
            assert_eq!(error.message(), expected);
            unread += 1;
        }
    }
    assert_eq!((all, unread), (34, 23));
}

#[test]
fn a_file_without_anything_is_sound() {
    let file = open(&Builder::new()).unwrap();
    assert_eq!((file.keys().count(), file.tensors().count()), (0, 0));
    // Accept a file without tensors that lacks the padding before their data.
    assert!(Gguf::from_bytes(&Builder::new().build()[..24]).is_ok());
}

#[test]
fn the_alignment_is_the_files_own() {
    let builder = Builder::new().alignment(256);
    let file = open(&builder.floats("a", &[1], &[1.0]).floats("b", &[1], &[2.0])).unwrap();
    assert_eq!(file.tensor("b").unwrap().to_f32().unwrap(), [2.0]);
    let with = |alignment| Builder::new().u32("general.alignment", alignment);
    for alignment in [0, 3, 48] {
        let expected = format!("`general.alignment` is U32({alignment}) and no power of two");
        assert_eq!(fault(&with(alignment)), expected);
    }
    let wrong = Builder::new().string("general.alignment", "32");
    assert_eq!(fault(&wrong), "`general.alignment` is String(\"32\") and no power of two");
    assert!(open(&with(1 << 31)).is_ok());
    let far = with(1 << 31).info("a", &[1], 0, 0);
    assert_eq!(fault(&far), "`a` has 4 bytes at 0 of the data, which has 0");
}

#[test]
fn other_files_are_told() {
    let message = refused(Gguf::from_bytes(b"PK\x03\x04 and so on".to_vec()));
    assert!(message.ends_with("the file is a zip archive, and no GGUF file"), "{message}");
    let message = refused(Gguf::from_bytes([0, 1, 2].repeat(9)));
    assert!(message.ends_with("the file is no GGUF file: it does not begin with `GGUF`"), "{message}");
    assert!(refused(Gguf::from_bytes(vec![])).ends_with("the file is empty"));
    for (version, expected) in [
        (1, "the file is of version 1 of GGUF"),
        (4, "the file is of version 4 of GGUF"),
        (3u32.swap_bytes(), "the file is big-endian, and only little-endian ones are read"),
    ] {
        let message = refused(open(&Builder::new().version(version)));
        assert_eq!(message, format!("the file in memory: {expected}"));
    }
}

#[test]
fn damage_is_named() {
    let huge = u64::MAX;
    let claims = |ty: u32, length: u64| [ty.to_le_bytes().to_vec(), length.to_le_bytes().to_vec()].concat();
    let deep = (0..9).fold(array(0, &[]), |inner, _| array(9, &[inner]));
    let cases = [
        (
            Builder::new().entry("k", 13, &[]),
            "entry 0 of 1 of the metadata: `k`: there is no type 13 of values",
        ),
        (
            Builder::new().u32("a", 1).entry("k", 8, &huge.to_le_bytes()),
            "entry 1 of 2 of the metadata: `k`: at byte 62 it needs 18446744073709551615 bytes, and the file \
             has 2 more",
        ),
        (
            Builder::new().entry("k", 9, &claims(8, huge)),
            "entry 0 of 1 of the metadata: `k`: an array of 18446744073709551615 x string does not fit into \
             the 15 bytes left",
        ),
        (
            Builder::new().entry("k", 9, &claims(99, 0)),
            "entry 0 of 1 of the metadata: `k`: there is no type 99 of values",
        ),
        (
            Builder::new().entry("k", 9, &array(7, &[vec![1], vec![2]])),
            "entry 0 of 1 of the metadata: `k`: element 1: a bool is 2 and not 0 or 1",
        ),
        (Builder::new().u32("k", 1).u32("k", 2), "entry 1 of 2 of the metadata: `k`: the key is there twice"),
        (
            Builder::new().info("a", &[1, 1, 1, 1, 1], 0, 0),
            "tensor 0 of 1: `a`: it has 5 dimensions, of which there are 4 at most",
        ),
        (Builder::new().info("a", &[1], 4, 0), "tensor 0 of 1: `a`: there is no type 4 of tensors"),
        (
            Builder::new().info("a", &[48, 2], 2, 0),
            "tensor 0 of 1: `a`: rows of 48 are no whole blocks of 32 of Q4_0",
        ),
        (
            Builder::new().info("a", &[1], 0, 4).data(&[0; 8]),
            "tensor 0 of 1: `a`: it lies at 4, which is no multiple of 32",
        ),
        (
            Builder::new().info("a", &[1 << 40, 1 << 40], 0, 0),
            "tensor 0 of 1: `a`: F32[1099511627776, 1099511627776] is larger than any file",
        ),
        (
            Builder::new().info("a", &[huge], 0, 0),
            "tensor 0 of 1: `a`: F32[18446744073709551615] is larger than any file",
        ),
        (
            Builder::new().info("a", &[9], 0, 0).data(&[0; 32]),
            "`a` has 36 bytes at 0 of the data, which has 32",
        ),
        (
            Builder::new().info("a", &[1], 0, huge - 31).data(&[0; 32]),
            "`a` has 4 bytes at 18446744073709551584 of the data, which has 32",
        ),
        (
            Builder::new().info("b", &[9], 0, 0).info("a", &[1], 0, 32).data(&[0; 64]),
            "the tensors `b` and `a` overlap",
        ),
        (Builder::new().floats("a", &[1], &[1.0]).floats("a", &[1], &[1.0]), "the tensor `a` is there twice"),
    ];
    for (builder, expected) in cases {
        assert_eq!(fault(&builder), expected);
    }
    let message = fault(&Builder::new().entry("k", 9, &deep));
    assert!(message.ends_with("arrays lie more than 8 deep in each other"), "{message}");
}

/// Checks that unrealistic counts neither reserve memory nor determine the length of a loop.
#[test]
fn counts_that_no_file_has() {
    for at in [8, 16] {
        let mut bytes = Builder::new().build();
        bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(refused(Gguf::from_bytes(bytes)).contains("the file is truncated or damaged"));
    }
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = Builder::new()
        .string("general.architecture", "gpt2")
        .strings("tokens", &["a", "b"])
        .floats("a", &[3, 2], &[1.0; 6])
        .tensor("b", &[32], TensorType::Q8_0, &[1; 34])
        .build();
    // Accept a file that is truncated within the padding after the last tensor.
    let end = bytes.len() - 30;
    for length in 0..bytes.len() {
        assert_eq!(Gguf::from_bytes(&bytes[..length]).is_ok(), length >= end, "{length} of {}", bytes.len());
    }
}

#[test]
fn files_are_mapped() {
    let path = data("gpt2.gguf");
    let file = Gguf::open(&path).unwrap();
    assert_eq!(file.name(), path.display().to_string());
    let in_memory = Gguf::from_bytes(std::fs::read(&path).unwrap()).unwrap();
    for (a, b) in file.tensors().zip(in_memory.tensors()) {
        assert_eq!((a.name, a.shape, a.bytes), (b.name, b.shape, b.bytes));
    }
    let folder = tempfile::tempdir().unwrap();
    let message = refused(Gguf::open(folder.path().join("none.gguf")));
    assert!(message.contains("none.gguf: cannot be read: "), "{message}");
    let message = refused(Gguf::open(folder.path()));
    assert!(message.ends_with("cannot be read: it is a directory, not a regular file"), "{message}");
    let empty = folder.path().join("empty.gguf");
    std::fs::write(&empty, []).unwrap();
    assert!(refused(Gguf::open(&empty)).ends_with("empty.gguf: the file is empty"));
}

/// A nested value ends before the bytes of the next one.
#[test]
fn values_end_where_the_next_begins() {
    let builder = Builder::new().entry("k", 9, &array(9, &[array(8, &[text("x")])])).string("l", "y");
    let file = open(&builder).unwrap();
    assert_eq!(file.require::<&str>("l").unwrap(), "y");
    assert_eq!(file.require::<Vec<Vec<&str>>>("k").unwrap(), [["x"]]);
}

/// Checks that a string in another encoding, such as a description, is read with replacement characters.
#[test]
fn a_text_that_is_not_utf_8_hinders_nothing() {
    let file = open(&Builder::new().entry("k", 8, &[3, 0, 0, 0, 0, 0, 0, 0, b'a', 255, b'b'])).unwrap();
    assert_eq!(file.get::<String>("k").unwrap().unwrap(), "a\u{fffd}b");
    let message = refused(file.get::<&str>("k"));
    assert!(message.ends_with("`k` is of type string that is not UTF-8 and not a string"), "{message}");
}
