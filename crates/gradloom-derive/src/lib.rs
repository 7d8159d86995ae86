//! `#[derive(Module)]` for gradloom models, and `#[op]` for gradloom's own functions of tensors.
//!
//! In: a struct or an enum whose fields are modules. Out: an implementation of `gradloom::nn::Module` that
//! visits the fields in declaration order under their own names, from which parameters get names such as
//! `layers.0.attention.query.weight`. Invariant: anything that cannot be derived is a compile error at the
//! offending code; no field is silently omitted.

mod attributes;
mod bounds;
mod expand;
mod op;

use proc_macro::TokenStream;

/// Implements `gradloom::nn::Module` for a struct or an enum.
///
/// The fields of a tuple struct are named `0`, `1` and so on. Mark a field that is not a module with
/// `#[module(skip)]`; any parameters in it are neither trained nor saved. A type parameter that an unmarked
/// field uses gets a `Module` bound.
///
/// For an enum, the fields of the active variant are visited under their names; the variant's name is not
/// part of the path. The only field of a one-field tuple variant adds no name to the path either, as in
/// `Some(..)`.
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

/// Marks a public function of `gradloom-core` that computes tensors by calling other ops. Errors within it
/// bear its name and point at the caller's line, and the compiler warns of unused results.
///
/// Adds `#[track_caller]`, `#[must_use]` and, before the body, `let _called = acting("its name");`. A
/// function that only emits one op under its own name needs the two attributes alone.
///
/// ```ignore
/// #[op]
/// pub fn softmax(self, axis: isize) -> Tensor {
///     // ..
/// }
/// ```
#[doc(hidden)]
#[proc_macro_attribute]
pub fn op(_: TokenStream, function: TokenStream) -> TokenStream {
    op::op(function.into()).into()
}
