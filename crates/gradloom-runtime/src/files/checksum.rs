//! Checksum of the contents of a checkpoint.

use super::Entries;
use sha2::{Digest, Sha256};

/// SHA-256 of a checkpoint: its entries, then the name, dtype, shape and bytes of each tensor. Each part is
/// preceded by its length, so that different contents never form the same byte sequence.
pub(super) struct Checksum(Sha256);

impl Checksum {
    pub(super) fn new(entries: &Entries) -> Self {
        let mut sum = Self(Sha256::new());
        sum.number(entries.len());
        for (key, value) in entries {
            sum.bytes(key.as_bytes());
            sum.bytes(value.as_bytes());
        }
        sum
    }

    /// Adds a tensor; the checksum depends on the order of the tensors.
    pub(super) fn tensor(&mut self, name: &str, dtype: safetensors::Dtype, shape: &[usize], bytes: &[u8]) {
        self.bytes(name.as_bytes());
        self.bytes(dtype.to_string().as_bytes());
        self.number(shape.len());
        shape.iter().for_each(|&extent| self.number(extent));
        self.bytes(bytes);
    }

    /// Returns the checksum in hexadecimal.
    pub(super) fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn number(&mut self, number: usize) {
        self.0.update((number as u64).to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.update(bytes);
    }
}
