//! `#[derive(Module)]` for gradloom models.
//!
//! In: a struct or an enum whose fields are modules. Out: an implementation of `gradloom::nn::Module` that
//! visits the fields in the order of their declaration under their own names, which is how parameters get
//! names such as `layers.0.attention.query.weight`. Always holds: what cannot be derived is a compile error
//! at the place that is wrong, never a field that is silently left out.

mod attributes;
mod bounds;
mod expand;

use proc_macro::TokenStream;

/// Implements `gradloom::nn::Module` for a struct or an enum.
///
/// The fields of a tuple struct are called `0`, `1` and so on. A field that is not a module is marked with
/// `#[module(skip)]`; its parameters, if it has any, are not trained and not saved. A type parameter that is
/// used by a field without that mark gets the bound `Module`.
///
/// Of an enum, the fields of the variant that is there are visited, under their names; the variant's name is
/// no part of a path. A single field without a name stands in the variant's place, as in `Some(..)`.
///
/// ```ignore
/// #[derive(Module)]
/// struct Block<A> {
///     norm: LayerNorm,
///     attention: A,
///     feed_forward: [Linear; 2],
///     #[module(skip)]
///     activation: fn(Tensor) -> Tensor,
/// }
///
/// #[derive(Module)]
/// enum Norm {
///     Layer(LayerNorm),
///     Rms(RmsNorm),
///     None,
/// }
/// ```
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::module(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
