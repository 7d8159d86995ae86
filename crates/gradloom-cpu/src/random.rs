//! Random bits: Philox4x32-10, sixteen counters at a time.
//!
//! In: seed and step as u32 scalars. Out: words that depend only on those, the site, the probability of a 1
//! and their own position. Invariant: they are made of those of [`gradloom_core::philox::random_word`].

use super::kernel::{Call, Prepared, Tasks};
use gradloom_core::ir::BinaryFraction;
use gradloom_core::kernel::Launch;
use gradloom_core::philox::counter;
use gradloom_device::host::random::{LANES, WORDS, lanes};
use gradloom_device::host::{InstructionSet, work};
use gradloom_device::multiversion;

/// Writes the elements of [`LANES`] consecutive blocks of four, starting at `block`.
///
/// # Safety
/// None. The function is unsafe because [`multiversion!`] requires it.
#[inline(always)]
unsafe fn blocks_body(
    block: u64,
    step: u32,
    site: u32,
    ones: BinaryFraction,
    key: [u32; 2],
    words: &mut [u32; WORDS],
) {
    let draw = |digit| lanes(counter(block, digit), step, site, key);
    let mut drawn = draw(0);
    for digit in 1..ones.digits {
        let is_one = ones.parts >> digit & 1 == 1;
        for (drawn, word) in drawn.as_flattened_mut().iter_mut().zip(draw(digit).as_flattened()) {
            *drawn = if is_one { *drawn | word } else { *drawn & word };
        }
    }
    let [c0, c1, c2, c3] = drawn;
    for lane in 0..LANES {
        words[4 * lane..4 * lane + 4].copy_from_slice(&[c0[lane], c1[lane], c2[lane], c3[lane]]);
    }
}

multiversion! {
    fn blocks<>(
        block: u64, step: u32, site: u32, ones: BinaryFraction, key: [u32; 2], words: &mut [u32; WORDS]
    ) = blocks_body;
}

/// Returns a kernel for a `RandomBits` launch.
pub(super) fn prepare(
    launch: &Launch,
    site: u32,
    ones: BinaryFraction,
    level: InstructionSet,
) -> Box<dyn Prepared> {
    let write = &launch.writes[0];
    debug_assert!(write.layout.is_contiguous());
    let scalar = |read: usize| launch.reads[read].layout.offset;
    Box::new(RandomBits {
        blocks: blocks(level),
        scalar_offsets: [scalar(0), scalar(1), scalar(2)],
        site,
        ones,
        write_offset: write.layout.offset,
        elements: write.layout.shape.elements(),
        grain: (work::GRAIN / 4 / ones.digits as usize).next_multiple_of(WORDS),
    })
}

struct RandomBits {
    blocks: unsafe fn(u64, u32, u32, BinaryFraction, [u32; 2], &mut [u32; WORDS]),
    /// Offsets of seed_lo, seed_hi and step in their buffers.
    scalar_offsets: [usize; 3],
    site: u32,
    ones: BinaryFraction,
    write_offset: usize,
    elements: usize,
    /// Number of elements per task, a multiple of [`WORDS`].
    grain: usize,
}

impl Tasks for RandomBits {
    fn count(&self, _: usize) -> usize {
        self.elements.div_ceil(self.grain)
    }

    unsafe fn run_task(&self, call: &Call<'_>, _: usize, task: usize) {
        // SAFETY: the three reads are u32 scalars of the launch.
        let scalar = |read: usize| unsafe { *call.read::<u32>(read, self.scalar_offsets[read]) };
        let (key, step) = ([scalar(0), scalar(1)], scalar(2));
        let end = ((task + 1) * self.grain).min(self.elements);
        let mut words = [0; WORDS];
        for start in (task * self.grain..end).step_by(WORDS) {
            let count = WORDS.min(end - start);
            // SAFETY: the function was chosen for this machine; the result has `elements` words, and tasks
            // write disjoint ranges of them.
            unsafe {
                (self.blocks)(start as u64 / 4, step, self.site, self.ones, key, &mut words);
                let to = call.write::<u32>(0, self.write_offset + start);
                std::ptr::copy_nonoverlapping(words.as_ptr(), to, count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::philox::random_word;

    #[test]
    fn every_instruction_set_gives_the_words_of_the_reference() {
        let (key, step, site) = ([7, 9], 11, 13);
        let fractions = [BinaryFraction::HALF, BinaryFraction::close_to(0.9), BinaryFraction::close_to(0.25)];
        // The last of these blocks carries into the counter's high word.
        let levels = InstructionSet::available().into_iter();
        let cases: Vec<_> = levels.flat_map(|level| fractions.map(|ones| (level, ones))).collect();
        for block in [0, 16, 1 << 20, (1 << 32) - 5] {
            for &(level, ones) in &cases {
                let mut words = [0; WORDS];
                // SAFETY: this machine supports the level.
                unsafe { blocks(level)(block, step, site, ones, key, &mut words) };
                let word = |i| ones.draw(|digit| random_word(key, step, site, 4 * block + i, digit));
                let expected: Vec<u32> = (0..WORDS as u64).map(word).collect();
                assert_eq!(words.as_slice(), expected, "{level:?} {ones:?} from block {block}");
            }
        }
    }
}
