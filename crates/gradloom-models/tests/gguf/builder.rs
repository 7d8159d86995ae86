//! Builder of small GGUF files, valid or not.

use gradloom_core::ir::{BLOCK, BlockFormat};
use gradloom_models::gguf::TensorType;

#[derive(Clone)]
pub(crate) struct Builder {
    version: u32,
    alignment: usize,
    entries: Vec<Vec<u8>>,
    infos: Vec<Vec<u8>>,
    data: Vec<u8>,
}

/// Returns a string preceded by its length.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Returns a value preceded by the number of its type.
fn value(ty: u32, bytes: &[u8]) -> Vec<u8> {
    [&ty.to_le_bytes()[..], bytes].concat()
}

pub(crate) fn array(ty: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    [&ty.to_le_bytes()[..], &(elements.len() as u64).to_le_bytes(), &elements.concat()].concat()
}

/// Returns the blocks of Q8_0 or Q4_0 for whole blocks of elements.
pub(crate) fn quantized(ty: TensorType, elements: &[f32]) -> Vec<u8> {
    let format = if ty == TensorType::Q8_0 { BlockFormat::Q8_0 } else { BlockFormat::Q4_0 };
    let mut bytes = Vec::new();
    let (blocks, rest) = elements.as_chunks::<BLOCK>();
    assert!(rest.is_empty(), "whole blocks");
    blocks.iter().for_each(|block| format.encode(block, &mut bytes));
    bytes
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { version: 3, alignment: 32, entries: vec![], infos: vec![], data: vec![] }
    }

    pub(crate) fn version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    pub(crate) fn alignment(self, alignment: u32) -> Self {
        Self { alignment: alignment as usize, ..self }.u32("general.alignment", alignment)
    }

    pub(crate) fn entry(mut self, key: &str, ty: u32, bytes: &[u8]) -> Self {
        self.entries.push([text(key), value(ty, bytes)].concat());
        self
    }

    pub(crate) fn string(self, key: &str, string: &str) -> Self {
        self.entry(key, 8, &text(string))
    }

    pub(crate) fn u32(self, key: &str, number: u32) -> Self {
        self.entry(key, 4, &number.to_le_bytes())
    }

    pub(crate) fn f32(self, key: &str, number: f32) -> Self {
        self.entry(key, 6, &number.to_le_bytes())
    }

    pub(crate) fn strings(self, key: &str, strings: &[&str]) -> Self {
        self.entry(key, 9, &array(8, &strings.iter().map(|string| text(string)).collect::<Vec<_>>()))
    }

    /// Adds a tensor's description to the header. The dimensions are in GGUF's order, fastest-varying first.
    pub(crate) fn info(mut self, name: &str, dimensions: &[u64], ty: u32, offset: u64) -> Self {
        let extents = dimensions.iter().flat_map(|extent| extent.to_le_bytes()).collect();
        let rank = (dimensions.len() as u32).to_le_bytes();
        let info = [text(name), rank.to_vec(), extents, value(ty, &offset.to_le_bytes())];
        self.infos.push(info.concat());
        self
    }

    /// Appends bytes to the data section, padded to the alignment.
    pub(crate) fn data(mut self, bytes: &[u8]) -> Self {
        self.data.extend(bytes);
        self.data.resize(self.data.len().next_multiple_of(self.alignment), 0);
        self
    }

    pub(crate) fn tensor(self, name: &str, dimensions: &[u64], ty: TensorType, bytes: &[u8]) -> Self {
        let offset = self.data.len() as u64;
        self.info(name, dimensions, ty as u32, offset).data(bytes)
    }

    pub(crate) fn floats(self, name: &str, dimensions: &[u64], floats: &[f32]) -> Self {
        let bytes: Vec<u8> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.tensor(name, dimensions, TensorType::F32, &bytes)
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let counts = [self.infos.len() as u64, self.entries.len() as u64].map(u64::to_le_bytes).concat();
        let version = self.version.to_le_bytes();
        let mut bytes =
            [b"GGUF", &version[..], &counts, &self.entries.concat(), &self.infos.concat()].concat();
        bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
        bytes.extend(&self.data);
        bytes
    }
}
