//! Text for many requests at once, over one model and one memory of pages.
//!
//! In: requests, which come, fork and are cancelled at any time. Out: the tokens of each as they are
//! chosen. Always holds: a request gets the tokens that it would get alone, up to rounding; a step that
//! fails changes nothing but the cache, and can be tried again; a text that has ended holds no block.
//!
//! A step of [`Generator`] is a step of the device for all texts that wait for one token (continuous
//! batching: Yu et al., "Orca", OSDI 2022), and one for a piece of some prompts, so that long prompts do
//! not hold up the others. Texts share the blocks of their common beginnings; when blocks run out, the
//! youngest text gives its own back, and is computed again later. [`TextGenerator`] takes and returns text,
//! with stop strings, instead of tokens. [`Generator::beams`] and [`Generator::speculate`] run a search, or
//! a draft model, over the same memory.

mod beams;
mod draft;
mod memory;
mod options;
mod program;
mod request;
mod schedule;
mod steps;
mod texts;

pub use options::GeneratorOptions;
pub use request::{Event, Finish, Request, RequestId, TokenLogprobs};
pub use schedule::{Generator, Totals};
pub use texts::{TextEvent, TextGenerator};
