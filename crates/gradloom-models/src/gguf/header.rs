//! The header of a GGUF file.
//!
//! In: the bytes of a file. Out: the locations of its metadata and tensors. Invariant: keys and names are
//! unique; values are valid; every tensor is aligned, within the file, and does not overlap another; memory
//! use is bounded by a small multiple of the header's size.
//!
//! The format, versions 2 and 3, is specified in `gguf.md` of the ggml project. All numbers are
//! little-endian. The file begins with the letters `GGUF`, the version (u32), and the numbers of tensors and
//! of metadata entries (u64 each). Then follow the entries: key, type (u32), value; and the tensors: name,
//! number of dimensions (u32), dimensions (u64 each, fastest-varying first), type (u32), offset (u64). The
//! data begins at the next multiple of `general.alignment` (32 by default); offsets are relative to it.

use super::cursor::{Cursor, Fault};
use super::error::{damaged, error};
use super::types::TensorType;
use super::value::{FromValue, Value};
use gradloom_core::error::{Error, Result};
use gradloom_runtime::files::{BEGINNING, FileKind};
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of dimensions of a ggml tensor.
const MOST_DIMENSIONS: u32 = 4;

#[derive(Debug)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) metadata: BTreeMap<String, Entry>,
    pub(super) tensors: BTreeMap<String, Place>,
}

/// Location of a metadata value in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    ty: u32,
    at: usize,
}

/// Location of a tensor in the file.
#[derive(Debug)]
pub(super) struct Place {
    /// Row-major shape: the contiguous dimension comes last.
    pub(super) shape: Vec<usize>,
    pub(super) ty: TensorType,
    pub(super) bytes: Range<usize>,
}

impl Entry {
    pub(super) fn value(self, bytes: &[u8]) -> std::result::Result<Value<'_>, Fault> {
        Value::read(&mut Cursor::new(bytes, self.at), self.ty, 0)
    }
}

impl Header {
    /// Parses the header of a file.
    ///
    /// # Errors
    /// Returns an error if the file is not a GGUF file, has an unsupported version or byte order, or is
    /// truncated or damaged.
    pub(super) fn parse(bytes: &[u8], file: &str) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, 0);
        if cursor.take(4).ok() != Some(b"GGUF") {
            return Err(no_gguf(bytes, file));
        }
        let in_header = |fault: Fault| damaged(file, fault);
        let version = cursor.u32().map_err(in_header)?;
        // Detect the wrong byte order, in which the version, a small number, becomes large.
        if matches!(version.swap_bytes(), 1..=0xffff) {
            return Err(error(file, "the file is big-endian, and only little-endian ones are read")
                .help("convert it with `gguf_convert_endian.py FILE little` of llama.cpp"));
        }
        if !matches!(version, 2 | 3) {
            return Err(error(file, format_args!("the file is of version {version} of GGUF"))
                .help("convert the model once more: versions 2 and 3 are read"));
        }
        let tensors = cursor.u64().map_err(in_header)?;
        let entries = cursor.u64().map_err(in_header)?;
        let mut header = Self { version, metadata: BTreeMap::new(), tensors: BTreeMap::new() };
        for index in 0..entries {
            header.read_entry(&mut cursor).map_err(|fault| {
                damaged(file, format_args!("entry {index} of {entries} of the metadata: {fault}"))
            })?;
        }
        let alignment = header.alignment(bytes).map_err(in_header)?;
        let mut infos = Vec::new();
        for index in 0..tensors {
            let info = Info::read(&mut cursor, alignment)
                .map_err(|fault| damaged(file, format_args!("tensor {index} of {tensors}: {fault}")))?;
            infos.push(info);
        }
        let data = (cursor.at() as u64).next_multiple_of(alignment.into());
        for info in infos {
            let (name, place) = info.placed(data, bytes.len()).map_err(in_header)?;
            if header.tensors.insert(name.to_string(), place).is_some() {
                return Err(damaged(file, format_args!("the tensor `{name}` is there twice")));
            }
        }
        match header.overlap() {
            Some((a, b)) => Err(damaged(file, format_args!("the tensors `{a}` and `{b}` overlap"))),
            None => Ok(header),
        }
    }

    fn read_entry(&mut self, cursor: &mut Cursor<'_>) -> std::result::Result<(), Fault> {
        let key = cursor.string().map_err(|fault| format!("its key: {fault}"))?;
        let of_key = |fault: Fault| format!("`{key}`: {fault}");
        let ty = cursor.u32().map_err(of_key)?;
        let entry = Entry { ty, at: cursor.at() };
        Value::read(cursor, ty, 0).map_err(of_key)?;
        match self.metadata.insert(key.to_string(), entry) {
            None => Ok(()),
            Some(_) => Err(of_key("the key is there twice".to_string())),
        }
    }

    fn alignment(&self, bytes: &[u8]) -> std::result::Result<u32, Fault> {
        const KEY: &str = "general.alignment";
        let Some(entry) = self.metadata.get(KEY) else { return Ok(32) };
        let value = entry.value(bytes)?;
        let alignment = u32::from_value(value).filter(|alignment| alignment.is_power_of_two());
        alignment.ok_or_else(|| format!("`{KEY}` is {value:?} and no power of two"))
    }

    /// Returns the names of two tensors that overlap, if any.
    fn overlap(&self) -> Option<(&str, &str)> {
        let places = self.tensors.iter().filter(|(_, place)| !place.bytes.is_empty());
        let mut places: Vec<_> =
            places.map(|(name, place)| (place.bytes.start, place.bytes.end, name)).collect();
        places.sort_unstable();
        let overlap = places.windows(2).find(|pair| pair[1].0 < pair[0].1)?;
        Some((overlap[0].2, overlap[1].2))
    }
}

/// Returns the error for a file that does not begin with `GGUF`.
fn no_gguf(bytes: &[u8], file: &str) -> Error {
    let kind = FileKind::of(&bytes[..bytes.len().min(BEGINNING as usize)]);
    let message = match kind {
        FileKind::Empty => "the file is empty".to_string(),
        // Treat `FileKind::Gguf` like an unknown kind: it includes files that begin with the letters in
        // reverse order.
        FileKind::Gguf | FileKind::Other => "the file is no GGUF file: it does not begin with `GGUF`".into(),
        kind => format!("the file is {kind}, and no GGUF file"),
    };
    error(file, message).help(kind.remedy())
}

/// Description of a tensor in the header.
struct Info<'a> {
    name: &'a str,
    shape: Vec<usize>,
    ty: TensorType,
    /// Size of the tensor's blocks in bytes.
    length: usize,
    /// Offset from the start of the data in bytes.
    offset: u64,
}

impl<'a> Info<'a> {
    fn read(cursor: &mut Cursor<'a>, alignment: u32) -> std::result::Result<Self, Fault> {
        let name = cursor.string().map_err(|fault| format!("its name: {fault}"))?;
        Self::read_rest(cursor, alignment, name).map_err(|fault| format!("`{name}`: {fault}"))
    }

    fn read_rest(cursor: &mut Cursor<'a>, alignment: u32, name: &'a str) -> std::result::Result<Self, Fault> {
        let dimensions = cursor.u32()?;
        if dimensions > MOST_DIMENSIONS {
            return Err(format!(
                "it has {dimensions} dimensions, of which there are {MOST_DIMENSIONS} at most"
            ));
        }
        let mut shape = Vec::with_capacity(dimensions as usize);
        for _ in 0..dimensions {
            let extent = cursor.u64()?;
            shape.push(usize::try_from(extent).map_err(|_| format!("an extent is {extent}"))?);
        }
        let (ty, offset) = (cursor.u32()?, cursor.u64()?);
        let ty = TensorType::of(ty).ok_or_else(|| format!("there is no type {ty} of tensors"))?;
        let (elements, bytes) = ty.block();
        let row = *shape.first().unwrap_or(&1);
        if !row.is_multiple_of(elements) {
            return Err(format!("rows of {row} are no whole blocks of {elements} of {ty}"));
        }
        if !offset.is_multiple_of(alignment.into()) {
            return Err(format!("it lies at {offset}, which is no multiple of {alignment}"));
        }
        shape.reverse();
        let count = shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent));
        let length = count.and_then(|count| (count / elements).checked_mul(bytes));
        let length = length.ok_or_else(|| format!("{ty}{shape:?} is larger than any file"))?;
        Ok(Self { name, shape, ty, length, offset })
    }

    /// Returns the tensor's name and location in a file of `size` bytes whose data begins at `data`.
    fn placed(self, data: u64, size: usize) -> std::result::Result<(&'a str, Place), Fault> {
        let Self { name, shape, ty, length, offset } = self;
        let start = data.checked_add(offset).and_then(|start| usize::try_from(start).ok());
        let end = start.and_then(|start| start.checked_add(length)).filter(|end| *end <= size);
        let (Some(start), Some(end)) = (start, end) else {
            let there = (size as u64).saturating_sub(data);
            return Err(format!("`{name}` has {length} bytes at {offset} of the data, which has {there}"));
        };
        Ok((name, Place { shape, ty, bytes: start..end }))
    }
}
