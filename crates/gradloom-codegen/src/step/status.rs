//! The words in which the device says what became of steps.
//!
//! In: what the device wrote. Out: the [`Verdict`] of the step that ended last, and the steps that failed
//! before, until the host has said that it knows. The first [`STEP_WORDS`] are one step's, and zero when it
//! starts: 0 the verdict; 1 the number, from 1, of the launch that trapped or whose window does not fit; 2
//! where: the position of the index among its operand's elements, or the axis of the window; 3 the index, as
//! i32; 4 the number that it must be below. Those behind them stay from step to step, and are written by the
//! guards alone, but for [`ACKNOWLEDGED`]: how many steps there were, how many of them failed, and a record
//! of the first failures that the host was not told of, and of the last one.

use gradloom_core::collections::sort_by_key;

/// Words that are of one step.
pub const STEP_WORDS: usize = 8;
/// All words.
pub const STATUS_WORDS: usize = RECORDS + (FIRST_RECORDS + 1) * RECORD_WORDS;
/// The word in which the host says how many failures it knows of. They need no record any longer.
pub const ACKNOWLEDGED: usize = 10;

/// The word of the verdict.
pub(crate) const VERDICT: usize = 0;
/// The word of the launch that trapped, counted from 1.
pub(crate) const LAUNCH: usize = 1;
/// The word of the position at which it did.
pub(crate) const POSITION: usize = 2;
/// The word of the index that was out of range.
pub(crate) const INDEX: usize = 3;
/// The word of the number that the index must be below.
pub(crate) const BOUND: usize = 4;
/// Words of a step that its record repeats.
pub(crate) const RECORDED_WORDS: usize = 5;

/// Steps so far.
pub(crate) const STEPS: usize = 8;
/// Those of them that failed.
pub(crate) const FAILURES: usize = 9;
/// Start of the records: a failure's number, from 1; its step's, from 0; and the words 0 to 4 of that step.
pub(crate) const RECORDS: usize = 12;
pub(crate) const RECORD_WORDS: usize = 8;
/// Failures since the last report that have a record, at least; failure `n` has the one of number `n % 4`.
/// The newest failure always has one, behind those.
pub(crate) const FIRST_RECORDS: usize = 4;

/// The verdict of a step that trapped.
pub(crate) const TRAPPED: u32 = 1;
/// The verdict of a step whose first guard is not finite; the others follow.
pub(crate) const FIRST_GUARD: u32 = 2;

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All updates took effect.
    Committed,
    /// An index was out of range.
    Trapped {
        /// Index of the launch.
        launch: usize,
        /// Position of the index among the elements of its operand; the axis, of a window.
        position: usize,
        /// The index.
        index: i32,
        /// Bound that it must be below.
        bound: usize,
    },
    /// The guard with this index is not finite.
    NotFinite(usize),
}

impl Verdict {
    fn new(step: &[u32]) -> Self {
        match step[0] {
            0 => Verdict::Committed,
            TRAPPED => Self::trap(step).expect("what trapped is said"),
            guard => Verdict::NotFinite((guard - FIRST_GUARD) as usize),
        }
    }

    fn trap(step: &[u32]) -> Option<Self> {
        Some(Verdict::Trapped {
            launch: (step[1] as usize).checked_sub(1)?,
            position: step[2] as usize,
            index: step[3].cast_signed(),
            bound: step[4] as usize,
        })
    }
}

/// A step that took no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of failures before it.
    pub number: u32,
    /// Number of steps before it.
    pub step: u32,
    /// Outcome of the step.
    pub verdict: Verdict,
}

/// The words as a step left them.
#[derive(Clone, Copy, Debug)]
pub struct Status([u32; STATUS_WORDS]);

impl Status {
    /// Reads the words at the start of some bytes, little-endian.
    pub fn new(bytes: &[u8]) -> Self {
        Self(std::array::from_fn(|i| u32::from_le_bytes([0, 1, 2, 3].map(|b| bytes[4 * i + b]))))
    }

    /// Returns the outcome of the step.
    pub fn verdict(&self) -> Verdict {
        Verdict::new(&self.0)
    }

    /// Returns the trap so far, if any, whether or not the verdict is there.
    pub fn trap(&self) -> Option<Verdict> {
        Verdict::trap(&self.0)
    }

    /// Returns the failures that have a record, from number `first` on, in order. The last one of all is
    /// among them, and the first four behind those that the host had told the device that it knows.
    pub fn failures_from(&self, first: u32) -> Vec<Failure> {
        let records = self.0[RECORDS..].chunks_exact(RECORD_WORDS);
        let failure = |record: &[u32]| {
            let number = record[0].checked_sub(1)?;
            (number >= first).then(|| Failure {
                number,
                step: record[1],
                verdict: Verdict::new(&record[2..]),
            })
        };
        let mut failures: Vec<Failure> = records.filter_map(failure).collect();
        sort_by_key(&mut failures, |failure| failure.number);
        // The last one may be among the first ones, too.
        failures.dedup();
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_in_order_and_from_a_number_on() {
        let mut words = [0u32; STATUS_WORDS];
        words[FAILURES] = 9;
        // The fifth and the sixth failure since the host was told of four; the others of the ring are from
        // before.
        let ring = [(5, 20), (6, 21), (3, 8), (4, 9), (9, 40)];
        for (slot, (number, step)) in ring.into_iter().enumerate() {
            let record = &mut words[RECORDS + slot * RECORD_WORDS..][..RECORD_WORDS];
            record[..3].copy_from_slice(&[number, step, FIRST_GUARD + 1]);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let status = Status::new(&bytes);
        assert_eq!((status.verdict(), status.trap()), (Verdict::Committed, None));
        let failure = |number, step| Failure { number, step, verdict: Verdict::NotFinite(1) };
        assert_eq!(status.failures_from(4), [failure(4, 20), failure(5, 21), failure(8, 40)]);
        assert_eq!(status.failures_from(8), [failure(8, 40)]);
        assert_eq!(status.failures_from(9), []);
    }

    #[test]
    fn the_last_failure_is_one_also_when_it_is_among_the_first() {
        let mut words = [0u32; STATUS_WORDS];
        words[FAILURES] = 1;
        for slot in [0, FIRST_RECORDS] {
            let record = &mut words[RECORDS + slot * RECORD_WORDS..][..RECORD_WORDS];
            record[..7].copy_from_slice(&[1, 6, TRAPPED, 3, 17, u32::MAX, 11]);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let verdict = Verdict::Trapped { launch: 2, position: 17, index: -1, bound: 11 };
        assert_eq!(Status::new(&bytes).failures_from(0), [Failure { number: 0, step: 6, verdict }]);
    }
}
