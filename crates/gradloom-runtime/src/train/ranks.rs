//! Check that the ranks of a world begin to train from the same state.

use crate::program::Program;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::plan::StoreEntry;

/// Checks that this rank has the parameters, counters and `numbers` of rank 0, and the same collective ops in
/// its program. All ranks must call this.
///
/// # Errors
/// Returns an error, and ends the world, if something differs. Also returns an error if another rank has
/// failed.
pub(super) fn check_equality(program: &Program, numbers: &[u64]) -> Result<()> {
    let backend = program.backend();
    let Some(communicator) = backend.communicator().filter(|_| backend.is_resident()) else { return Ok(()) };
    let [mut values, mut ops] = [Fingerprint::default(); 2];
    numbers.iter().for_each(|&number| values.add(number));
    let is_common = |entry: &StoreEntry| entry.init.is_none() || entry.ty.shape.rank() == 0;
    for (entry, bytes) in program.store().read_where(is_common)? {
        values.add_bytes(entry.name.as_bytes());
        values.add_bytes(&bytes);
    }
    for launch in program.plan().launches.iter().filter(|launch| launch.kernel.is_collective()) {
        ops.add_bytes(launch.kernel.name().as_bytes());
        for access in launch.reads.iter().chain(&launch.writes) {
            ops.add(access.layout.shape.elements() as u64);
            ops.add(access.dtype.bytes() as u64);
        }
    }
    let own = [values, ops].map(|Fingerprint(number)| number.to_le_bytes());
    let mut first = own.concat();
    communicator.broadcast(0, &mut first)?;
    let what = match first.split_at_checked(8) {
        Some((values, _)) if values != own[0] => "other parameters than rank 0 has",
        Some((_, ops)) if ops != own[1] => "a step that exchanges other values than rank 0's",
        _ => return Ok(()),
    };
    let error = Error::new(ErrorKind::World, format!("this rank begins with {what}")).help(
        "give all ranks the same model, seed and settings, load the same files and the same number of steps, and \
         use GPUs of one kind with the same libraries",
    );
    communicator.fail(&error);
    Err(error)
}

/// Checksum that is fast rather than secure, like that of the crate `rustc-hash`.
#[derive(Clone, Copy, Default)]
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
