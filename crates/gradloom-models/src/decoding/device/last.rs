//! Transfer of a step's tokens to the next step on the device, without waiting for the host.

use gradloom_core::ir::DType;
use gradloom_core::nn::State;
use gradloom_core::trace::Tensor;

/// The last token chosen for each row: a state, i32 `[rows]`. Programs that share it continue from each
/// other's tokens.
#[derive(Debug)]
pub struct LastTokens(State);

impl LastTokens {
    /// Id that represents the token chosen for the same row in the previous step.
    pub const ID: i32 = -1;

    /// Creates a named state for `rows` rows.
    pub fn new(rows: usize, name: impl Into<String>) -> Self {
        Self(State::new([rows], DType::I32, 0.0).in_place().named(name.into()))
    }

    /// Replaces each [`LastTokens::ID`] in `ids`, i32 `[rows, 1]`, by the row's last token.
    #[track_caller]
    #[must_use]
    pub fn resolve(&self, ids: Tensor) -> Tensor {
        ids.eq(Self::ID).select(self.0.tensor().unsqueeze(1), ids)
    }

    /// Registers the state in the program that is being traced, which creates it unless another program
    /// already has.
    #[track_caller]
    pub fn declare(&self) {
        // Assign the state to itself: this launches nothing, whereas a state that is only read would be
        // dropped.
        self.0.set(self.0.tensor());
    }

    /// Stores the tokens of this step, i32 `[rows]`, for the next one. A row without a token (-1) stores 0,
    /// so that the next step has a valid id.
    #[track_caller]
    pub fn keep(&self, tokens: Tensor) {
        self.0.set(tokens.maximum(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::nn::Linear;
    use gradloom_core::trace::i32;
    use gradloom_cpu::CpuDevice as _;
    use gradloom_runtime::{Device, Infer, Session};

    /// Programs share the state, known ids are unchanged, and a row without a token stores token 0.
    #[test]
    fn rows_go_on_from_what_they_chose() {
        let session = Session::new(Linear::new(1, 1), &Device::cpu(), 0).unwrap();
        let last = LastTokens::new(3, "last");
        let _: Infer<0, ()> = session.infer([], |_, []| last.declare()).unwrap();
        assert_eq!(session.store().read("last").unwrap().len(), 3 * 4);
        let program = |by: i32| -> Infer<1, Tensor> {
            let traced = session.infer([i32("ids", [3, 1])], |_, [ids]| {
                let ids = last.resolve(ids);
                last.keep(ids.squeeze(1) + by);
                ids
            });
            traced.unwrap()
        };
        let mut programs = [program(1), program(-100)];
        for (program, ids, want) in [
            (0, [5, LastTokens::ID, 7], [5., 0., 7.]),
            (1, [LastTokens::ID, LastTokens::ID, 4], [6., 1., 4.]),
            (0, [LastTokens::ID, 9, LastTokens::ID], [0., 9., 0.]),
        ] {
            assert_eq!(programs[program].run([&ids]).unwrap(), want);
        }
    }
}
