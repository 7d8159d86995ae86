//! Clones of models, with new parameters and states that keep their ties.
//!
//! In: a parameter or state to clone. Out: a new one. Invariant: within one [`duplicate`], all clones of one
//! parameter are the same parameter. Outside [`duplicate`], cloning a tied parameter panics, as it is unknown
//! which clones belong together.

use super::param::{Param, ParamId};
use super::state::{State, StateId};
use crate::collections::SortedMap;
use std::cell::RefCell;

/// Clones that the current [`duplicate`] has created so far, by the identity of the original.
#[derive(Default)]
struct Clones {
    params: SortedMap<ParamId, Param>,
    states: SortedMap<StateId, State>,
}

thread_local! {
    static CLONES: RefCell<Option<Clones>> = const { RefCell::new(None) };
}

/// Returns a clone of a model with new parameters and states, which start with the initial values of a new
/// model. Parameters and states that are tied in the model are tied in the clone.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; }
/// use gradloom::nn::{Linear, Module, Param, duplicate};
/// # extern crate gradloom_core as gradloom;
///
/// #[derive(Clone, Module)]
/// struct Tied {
///     encode: Linear,
///     decode: Param,
/// }
///
/// let encode = Linear::no_bias(8, 2);
/// let online = Tied { decode: encode.weight.tie(), encode };
/// let target = duplicate(&online);
/// assert_eq!(target.decode.id(), target.encode.weight.id());
/// assert_ne!(target.decode.id(), online.decode.id());
/// ```
pub fn duplicate<M: Clone>(model: &M) -> M {
    /// Restores the clones of the enclosing call, even after a panic.
    struct Outer(Option<Clones>);
    impl Drop for Outer {
        fn drop(&mut self) {
            let outer = self.0.take();
            let _ = CLONES.try_with(|clones| clones.replace(outer));
        }
    }
    let _outer = Outer(CLONES.with(|clones| clones.replace(Some(Clones::default()))));
    model.clone()
}

/// Defines a function that returns the clone of the parameter or state with the given identity: the existing
/// one, or one created by `new`. Outside [`duplicate`], the function returns `None`.
macro_rules! in_clone {
    ($name:ident, $list:ident, $id:ty, $what:ty) => {
        pub(super) fn $name(id: $id, new: impl FnOnce() -> $what) -> Option<$what> {
            CLONES.with(|clones| {
                let mut clones = clones.borrow_mut();
                let list = &mut clones.as_mut()?.$list;
                if let Some(known) = list.get(&id) {
                    return Some(known.share());
                }
                let made = new();
                list.insert(id, made.share());
                Some(made)
            })
        }
    };
}
in_clone!(param_in_clone, params, ParamId, Param);
in_clone!(state_in_clone, states, StateId, State);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;
    use crate::nn::{Init, Linear, Sequential};

    #[test]
    fn a_clone_is_a_new_parameter_with_the_same_settings() {
        let one = Param::new([2, 3], Init::Ones);
        one.freeze();
        one.set_decay(false);
        let two = one.clone();
        assert_ne!(one.id(), two.id());
        assert_eq!(
            (two.ty(), two.init(), two.is_frozen(), two.decay()),
            (one.ty(), &Init::Ones, true, Some(false))
        );
        let state = State::new([2], DType::I32, 3.0).named("count").in_place();
        let other = state.clone();
        assert_ne!(state.id(), other.id());
        assert_eq!((other.name(), other.is_in_place(), other.init()), (Some("count"), true, state.init()));
    }

    #[test]
    fn copies_of_a_layer_are_layers_of_their_own() {
        let layers = vec![Linear::new(4, 4); 3];
        let ids: Vec<ParamId> = layers.iter().map(|layer| layer.weight.id()).collect();
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
        let mut visited = 0;
        let all = Sequential::new().layer(Linear::new(4, 4)).function(crate::trace::Tensor::relu).clone();
        crate::nn::Module::visit(&all, &mut crate::nn::Visitor::new(&mut |_, _| visited += 1));
        assert_eq!(visited, 2);
    }

    #[test]
    fn duplicates_keep_ties_and_leave_nothing_behind() {
        let (a, s) = (Param::new([1], Init::Zeros), State::new([1], DType::F32, 0.0));
        let model = ((a.tie(), a), (s.tie(), s));
        let clones = [duplicate(&model), duplicate(&model)];
        for ((a, b), (s, t)) in &clones {
            assert_eq!((a.id(), s.id()), (b.id(), t.id()));
        }
        assert_ne!(clones[0].0.0.id(), clones[1].0.0.id());
        assert_ne!(clones[0].1.0.id(), model.1.0.id());
        // The clones are tied like their originals, so a duplicate can be duplicated again.
        let again = duplicate(&clones[0]);
        assert_eq!(again.0.0.id(), again.0.1.id());
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| clones[0].clone()));
        assert!(panics.is_err(), "a clone would lose the tie");
        assert!(CLONES.with(|clones| clones.borrow().is_none()));
    }
}
