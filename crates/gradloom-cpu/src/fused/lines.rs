//! A thread's memory for tiles, in whole cache lines.
//!
//! In tests, the memory has exactly the lines that a program requested, between guard pages. Miri has no
//! guard pages, but detects out-of-bounds accesses by itself.

#[cfg(all(test, unix, not(miri)))]
use gradloom_device::guarded::Guarded;

/// Size of a cache line in bytes.
pub(super) const LINE: usize = 64;

#[derive(Clone, Copy)]
#[repr(align(64))]
#[cfg(not(all(test, unix, not(miri))))]
struct Line(#[allow(dead_code)] [u32; LINE / 4]);

#[derive(Default)]
#[cfg(not(all(test, unix, not(miri))))]
pub(super) struct Lines(Vec<Line>);

#[cfg(not(all(test, unix, not(miri))))]
impl Lines {
    /// Returns the address of at least `lines` lines, which may keep their previous contents.
    pub(super) fn at_least(&mut self, lines: usize) -> *mut u8 {
        if self.0.len() < lines {
            self.0.resize(lines, Line([0; LINE / 4]));
        }
        self.0.as_mut_ptr().cast()
    }
}

#[derive(Default)]
#[cfg(all(test, unix, not(miri)))]
pub(super) struct Lines(Option<(usize, Guarded)>);

#[cfg(all(test, unix, not(miri)))]
impl Lines {
    pub(super) fn at_least(&mut self, lines: usize) -> *mut u8 {
        if self.0.as_ref().is_none_or(|(known, _)| *known != lines) {
            self.0 = Some((lines, Guarded::new(lines * LINE).expect("the system has some memory")));
        }
        let (_, memory) = self.0.as_ref().expect("it was just made");
        memory.start().as_ptr()
    }
}
