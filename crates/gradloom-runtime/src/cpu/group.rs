//! Several kernels in one launch.

use super::kernel::Prepared;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::{Launch, Part};

pub(super) fn prepare_group(_launch: &Launch, _parts: &[Part], _graph: &Graph) -> Box<dyn Prepared> {
    todo!()
}
