//! A fast hash that is not cryptographic: it does not withstand keys that were chosen to collide.

use std::hash::{Hash, Hasher};

/// The hash of a value, which is the same in every run.
pub fn hash<T: Hash>(value: &T) -> u64 {
    let mut mixer = Mixer(0);
    value.hash(&mut mixer);
    mixer.finish()
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // Any odd number whose bits look random will do.
            self.0 = (self.0.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
