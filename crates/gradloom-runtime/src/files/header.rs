//! Reads the header of a safetensors file: eight bytes with its length, JSON, and then the data of the
//! tensors.

use super::error::{empty, malformed, of_another_kind, truncated, unreadable};
use super::{BEGINNING, Bytes, FileKind};
use gradloom_core::error::Result;
use safetensors::tensor::{Metadata, SafeTensorError};
use std::fs::File;
use std::io::Read;

/// Maximum size of a header in bytes, as defined by the format.
pub(super) const LARGEST: u64 = 100_000_000;

/// Maps a file, and returns its bytes and its header. If the size of the file differs from the size in its
/// header, only the header is read, however large the file is.
///
/// # Errors
/// Returns an error if the file cannot be read, is truncated, or is damaged.
pub(super) fn map(file: &File, name: &str) -> Result<(Bytes, Metadata)> {
    let failed = |source| unreadable(name, &source);
    let size = file.metadata().map_err(failed)?.len();
    let mut head = Vec::new();
    let reader = file;
    reader.take(BEGINNING).read_to_end(&mut head).map_err(failed)?;
    let length = head.first_chunk().map_or(u64::MAX, |length| u64::from_le_bytes(*length));
    if length <= LARGEST {
        let rest = (8 + length).saturating_sub(head.len() as u64);
        reader.take(rest).read_to_end(&mut head).map_err(failed)?;
    }
    let metadata = parse(&head, size, name)?;
    Ok((Bytes::map(file, size, name)?, metadata))
}

/// Parses the header in the first bytes of a file of `size` bytes. `bytes` need only reach the end of the
/// header.
///
/// # Errors
/// Returns an error if the file is of another kind, has no header, is truncated or damaged, or if its size
/// differs from the size in its header.
#[expect(clippy::disallowed_methods, reason = "the crate `safetensors` has its own type for a header")]
pub(super) fn parse(bytes: &[u8], size: u64, name: &str) -> Result<Metadata> {
    match FileKind::of(&bytes[..bytes.len().min(BEGINNING as usize)]) {
        FileKind::Empty => return Err(empty(name)),
        // Continue with an unrecognized kind, because the file may be a damaged safetensors file.
        FileKind::Safetensors | FileKind::Other => {}
        kind => return Err(of_another_kind(name, kind)),
    }
    let Some((length, rest)) = bytes.split_first_chunk() else {
        return Err(truncated(name, format_args!("it has only {size} bytes")));
    };
    let length = u64::from_le_bytes(*length);
    if length > LARGEST {
        return Err(malformed(name, SafeTensorError::HeaderTooLarge));
    }
    let Some(header) = rest.get(..length as usize) else {
        return Err(truncated(name, "it ends within its header"));
    };
    // Parse only the JSON: the reader of the safetensors crate would also add up sizes, which can overflow.
    let metadata: Metadata = match serde_json::from_slice(header) {
        Ok(metadata) => metadata,
        Err(error) => return Err(malformed(name, reason(header, &error))),
    };
    if (metadata.data_len() as u64).checked_add(8 + length) != Some(size) {
        return Err(truncated(name, format_args!("it has {size} bytes, which is not what its header says")));
    }
    Ok(metadata)
}

/// Returns a description of the error in a header, with the name of the tensor that it concerns, if any.
#[expect(clippy::disallowed_methods, reason = "it tells what the reader of that type refused")]
fn reason(header: &[u8], error: &serde_json::Error) -> String {
    use serde_json::{Map, Value};
    let Ok(entries) = serde_json::from_slice::<Map<String, Value>>(header) else { return error.to_string() };
    let number = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
    let numbers = |value: &Value| value.as_array()?.iter().map(number).collect::<Option<Vec<usize>>>();
    let mut places = Vec::new();
    for (name, entry) in entries.iter().filter(|(name, _)| *name != "__metadata__") {
        let wrong = |what: &str| {
            let value = entry.get(what).map_or("missing".to_string(), Value::to_string);
            format!("the {what} of `{name}` is {value}")
        };
        let dtype = entry.get("dtype").cloned().unwrap_or(Value::Null);
        let Ok(dtype) = serde_json::from_value::<safetensors::Dtype>(dtype) else { return wrong("dtype") };
        let Some(shape) = entry.get("shape").and_then(numbers) else { return wrong("shape") };
        let offsets = entry.get("data_offsets").and_then(numbers);
        let Some([start, end]) = offsets.as_deref() else { return wrong("data_offsets") };
        let bits = shape.iter().try_fold(dtype.bitsize(), |bits, &extent| bits.checked_mul(extent));
        let bytes = bits.filter(|bits| bits.is_multiple_of(8)).map(|bits| bits / 8);
        if bytes.is_none() || end.checked_sub(*start) != bytes {
            return format!("`{name}` is {dtype}{shape:?} and lies from {start} to {end}");
        }
        places.push((*start, *end, name));
    }
    places.sort_unstable();
    let mut expected = 0;
    for (start, end, name) in places {
        if start != expected {
            return format!("`{name}` lies from {start}, and what is before it ends at {expected}");
        }
        expected = end;
    }
    error.to_string()
}
