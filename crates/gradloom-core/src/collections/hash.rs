//! A fast, non-cryptographic hash. It does not resist keys chosen to collide.

use std::hash::{Hash, Hasher};

/// Returns the bucket of a key in a hash table. The bucket is the same in every run.
pub fn bucket<'t, K: Hash, B>(key: &K, table: &'t mut [B]) -> &'t mut B {
    let mut mixer = Mixer(0);
    key.hash(&mut mixer);
    // Use the upper half, which is mixed best, as a fraction of 2^32, and scale it by the table's length.
    let bucket = ((mixer.finish() >> 32) * table.len() as u64) >> 32;
    &mut table[bucket as usize]
}

struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // Any odd multiplier with irregular bits works.
            self.0 = (self.0.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
