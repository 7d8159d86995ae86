//! The types of results of a forward program.

use gradloom_core::trace::Tensor;

/// Tensors that a closure returns, and the host data that a run gives for them.
pub trait Outputs {
    /// Host data: a `Vec<f32>` for each tensor.
    type Read;
    /// The tensors in order.
    fn tensors(self) -> Vec<Tensor>;
    /// The data from the tensors' elements in order.
    fn read(values: &mut dyn Iterator<Item = Vec<f32>>) -> Self::Read;
}

fn next(values: &mut dyn Iterator<Item = Vec<f32>>) -> Vec<f32> {
    values.next().expect("one value for each tensor")
}

/// No outputs: for programs that only update states.
impl Outputs for () {
    type Read = ();
    fn tensors(self) -> Vec<Tensor> {
        Vec::new()
    }
    fn read(_: &mut dyn Iterator<Item = Vec<f32>>) {}
}

impl Outputs for Tensor {
    type Read = Vec<f32>;
    fn tensors(self) -> Vec<Tensor> {
        vec![self]
    }
    fn read(values: &mut dyn Iterator<Item = Vec<f32>>) -> Vec<f32> {
        next(values)
    }
}

impl<const N: usize> Outputs for [Tensor; N] {
    type Read = [Vec<f32>; N];
    fn tensors(self) -> Vec<Tensor> {
        self.to_vec()
    }
    fn read(values: &mut dyn Iterator<Item = Vec<f32>>) -> Self::Read {
        std::array::from_fn(|_| next(values))
    }
}

impl Outputs for Vec<Tensor> {
    type Read = Vec<Vec<f32>>;
    fn tensors(self) -> Vec<Tensor> {
        self
    }
    fn read(values: &mut dyn Iterator<Item = Vec<f32>>) -> Self::Read {
        values.collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident)+);)*) => {$(
        impl<$($name: Outputs),+> Outputs for ($($name,)+) {
            type Read = ($($name::Read,)+);
            #[allow(non_snake_case)]
            fn tensors(self) -> Vec<Tensor> {
                let ($($name,)+) = self;
                let mut all = Vec::new();
                $(all.extend($name.tensors());)+
                all
            }
            fn read(values: &mut dyn Iterator<Item = Vec<f32>>) -> Self::Read {
                ($($name::read(values),)+)
            }
        }
    )*};
}
tuples! { (A B); (A B C); (A B C D); }
