//! Neural-network modules: parameters, their initial values, states and layers.

mod attention;
mod cache;
mod duplicate;
mod init;
pub mod layers;
mod low_rank;
mod module;
mod param;
mod pattern;
mod state;
mod stored;

pub use attention::CausalSelfAttention;
pub use cache::{KeyValueCache, attend_to_new};
pub use duplicate::duplicate;
pub use gradloom_derive::Module;
pub use init::{Init, fans};
#[doc(inline)]
pub use layers::*;
pub use low_rank::{Adapter, LowRank, add_low_rank};
pub use module::{Found, Module, Visitor};
pub use param::{Param, ParamId};
pub use pattern::Pattern;
pub use state::{State, StateId};
pub use stored::{Stored, store_matrices};
