//! The way of a step's tokens to the next step, which need not wait until the host has read them.

use gradloom_core::ir::DType;
use gradloom_core::nn::State;
use gradloom_core::trace::Tensor;

/// The token that each row chose last: a state, i32 `[rows]`. Programs that share it go on from each other's
/// tokens.
#[derive(Debug)]
pub struct LastTokens(State);

impl LastTokens {
    /// The id that stands for the token that its row chose in the step before.
    pub const ID: i32 = -1;

    /// Makes the state of so many rows, under a name.
    pub fn new(rows: usize, name: impl Into<String>) -> Self {
        Self(State::new([rows], DType::I32, 0.0).in_place().named(name.into()))
    }

    /// Returns ids, i32 `[rows, 1]`, in which [`LastTokens::ID`] is replaced.
    #[track_caller]
    #[must_use]
    pub fn resolve(&self, ids: Tensor) -> Tensor {
        ids.eq(Self::ID).select(self.0.tensor().unsqueeze(1), ids)
    }

    /// Makes the program in which this is called create the state, unless another one needed it before.
    #[track_caller]
    pub fn declare(&self) {
        // An update without effect, for which nothing is launched; a state that is only looked up is dropped.
        self.0.set(self.0.tensor());
    }

    /// Keeps the tokens of this step, i32 `[rows]`, for the next one. In place of none, which is -1, it keeps
    /// token 0, so that the next step has one to read.
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

    /// Programs that share it go on from each other, known ids stay, and a row without a token gives token 0.
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
