//! Check that the ranks of a world begin to train from the same state.

use crate::store::Store;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::plan::StoreEntry;
use gradloom_device::Device;

/// Checks that this rank has the parameters, counters and `numbers` of rank 0. All ranks must call this.
///
/// # Errors
/// Returns an error, and ends the world, if something differs. Also returns an error if another rank has
/// failed.
pub(super) fn check_equality(device: &Device, store: &Store, numbers: &[u64]) -> Result<()> {
    let Some(communicator) = device.backend().communicator().filter(|_| device.backend().is_resident())
    else {
        return Ok(());
    };
    let mut fingerprint = Fingerprint::default();
    numbers.iter().for_each(|&number| fingerprint.add(number));
    let is_common = |entry: &StoreEntry| entry.init.is_none() || entry.ty.shape.rank() == 0;
    for (entry, bytes) in store.read_where(is_common)? {
        fingerprint.add_bytes(entry.name.as_bytes());
        fingerprint.add_bytes(&bytes);
    }
    let mut first = fingerprint.0.to_le_bytes().to_vec();
    communicator.broadcast(0, &mut first)?;
    if first == fingerprint.0.to_le_bytes() {
        return Ok(());
    }
    let message = format!("rank {} does not begin with the parameters of rank 0", communicator.rank());
    let error = Error::new(ErrorKind::World, message).help(
        "give all ranks the same model, seed and settings, and load the same files and the same number of steps \
         on all",
    );
    communicator.fail(&error);
    Err(error)
}

/// Checksum that is fast rather than secure, like that of the crate `rustc-hash`.
#[derive(Default)]
struct Fingerprint(u64);

impl Fingerprint {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0xf135_7aea_2e62_a9c5);
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        rest.iter().for_each(|&byte| self.add(byte.into()));
        self.add(bytes.len() as u64);
    }
}
