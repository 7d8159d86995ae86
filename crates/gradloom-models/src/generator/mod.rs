//! Text generation for many concurrent requests with one model and one paged memory.
//!
//! In: requests, which can be added, forked and cancelled at any time. Out: the tokens of each request as
//! they are chosen. Invariant: a request gets the same tokens as it would get alone, up to rounding; a
//! failed step changes nothing but the cache and can be retried; a text that has ended occupies no block.
//!
//! A step of [`Generator`] runs one step on the device for all texts that wait for one token (continuous
//! batching: Yu et al., "Orca", OSDI 2022), and one for a chunk of some prompts, so that long prompts do not
//! delay the other texts. Texts share the blocks of common prefixes. When blocks run out, the youngest text
//! is preempted and recomputed later. [`TextGenerator`] works on text, with stop strings, instead of tokens.
//! [`Generator::beams`] and [`Generator::speculate`] run beam search or speculative decoding in the same
//! memory.

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
