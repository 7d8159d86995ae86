//! The folder of a run.
//!
//! `config.json` (the options), `metrics.csv` and `loss.svg` (losses over the steps), `events.jsonl`
//! (events with their times), `model.safetensors` (the weights), `state.safetensors` (everything that a
//! resumed run needs), `sample.txt` (a text by the model), `tokenizer.json` (of a run whose tokens are not
//! bytes); `docs/runs.md` describes them for users. Always holds: each file but `metrics.csv` and
//! `events.jsonl` is replaced as a whole, so an interruption leaves the last complete one.

mod chart;
mod events;
mod folder;
mod metrics;
mod state;

pub(crate) use events::{Beginning, Ending, Event, Events, Reason, Taken};
pub(crate) use folder::{MODEL, RunFolder, STATE, TOKENIZER, broken_link, unusable};
pub(crate) use metrics::{Measurement, Metrics};
pub(crate) use state::{Saved, Snapshot};
