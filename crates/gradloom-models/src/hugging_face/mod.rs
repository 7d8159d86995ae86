//! Model folders in the format of Hugging Face's transformers.
//!
//! In: a folder with `config.json` and safetensors files (one, or several with an index), of GPT-2 or the
//! Llama family. Out: the configuration and a session's parameters; or such a folder written from a session.
//! Invariant: a configuration with an unsupported feature is an error that names it, and is never loaded
//! as a different model; transformers can load what [`save`] writes, with the same parameters.
//!
//! ```no_run
//! # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
//! # use gradloom_cpu::CpuDevice as _;
//! use gradloom_models::hugging_face::{Folder, Saving, save};
//! # use gradloom::Device;
//! let folder = Folder::open("gpt2")?;
//! let session = folder.session(&Device::cpu())?;
//! // .. trained further ..
//! save(&session, "gpt2-tuned", &Saving::default())?;
//! # Ok::<(), gradloom::error::Error>(())
//! ```

mod config;
mod folder;
mod generation;
mod names;
mod save;
mod stored;

pub use config::{from_json, to_json};
pub use folder::Folder;
pub use generation::Generation;
pub use names::load;
pub use save::{Saving, save};
pub use stored::{save_stored, stored_name};
