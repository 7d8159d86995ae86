//! Modules: parameters, their initial values, and layers.

mod attention;
mod init;
mod layers;
mod module;
mod param;

pub use attention::CausalSelfAttention;
pub use gradloom_derive::Module;
pub use init::Init;
pub use layers::{Dropout, Embedding, LayerNorm, Linear};
pub use module::{Module, Visitor};
pub use param::{Param, ParamId};
