//! Modules, whose parameters and states are visited with their names.

use super::{Param, State};
use std::rc::Rc;
use std::sync::Arc;

/// A container of parameters and states. `#[derive(Module)]` implements it by visiting every field.
///
/// Numbers, strings and similar types have no parameters; `Vec`, `Option`, arrays, boxes and references visit
/// their contents.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `Module`",
    note = "derive it with `#[derive(Module)]`, or mark the field with `#[module(skip)]` if it has no \
            parameters"
)]
pub trait Module {
    /// Reports every parameter, state and submodule to the visitor, each under the name of its field.
    fn visit(&self, visitor: &mut Visitor<'_>);
}

/// Collects parameters and states with their paths.
pub struct Visitor<'a> {
    path: String,
    sink: Sink<'a>,
    /// True if the next parameter is the weight of a product to which an adapter is added.
    of_product: bool,
}

/// Callback for each parameter or state.
enum Sink<'a> {
    Params(&'a mut dyn FnMut(&str, &Param)),
    All(&'a mut dyn FnMut(&str, Found<'_>)),
    /// Receives each parameter, and `true` if it is visited as the weight of a product to which an adapter is
    /// added.
    Weights(&'a mut dyn FnMut(&Param, bool)),
}

/// A parameter or state that a [`Visitor`] reports.
#[derive(Clone, Copy, Debug)]
pub enum Found<'m> {
    /// A parameter.
    Param(&'m Param),
    /// A state.
    State(&'m State),
}

impl<'a> Visitor<'a> {
    /// Creates a visitor that calls `found` with each parameter's path.
    pub fn new(found: &'a mut dyn FnMut(&str, &Param)) -> Self {
        Self::of(Sink::Params(found))
    }

    /// Creates a visitor that calls `found` with the path of each parameter and state.
    pub fn of_all(found: &'a mut dyn FnMut(&str, Found<'_>)) -> Self {
        Self::of(Sink::All(found))
    }

    /// Creates a visitor that calls `found` with each parameter, and with `true` if it is visited as the
    /// weight of a product to which an adapter is added.
    pub(super) fn of_weights(found: &'a mut dyn FnMut(&Param, bool)) -> Self {
        Self::of(Sink::Weights(found))
    }

    fn of(sink: Sink<'a>) -> Self {
        Self { path: String::new(), sink, of_product: false }
    }

    /// Visits the weight of a matrix product, to which the layer adds the product of the weight's adapter.
    pub(super) fn weight(&mut self, name: &str, weight: &Param) {
        self.of_product = true;
        self.field(name, weight);
    }

    /// Visits a field under its name.
    pub fn field(&mut self, name: &str, module: &dyn Module) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        module.visit(self);
        self.path.truncate(length);
    }

    /// Reports a parameter under the current path.
    pub fn param(&mut self, param: &Param) {
        match &mut self.sink {
            Sink::Params(found) => found(&self.path, param),
            Sink::All(found) => found(&self.path, Found::Param(param)),
            Sink::Weights(found) => found(param, std::mem::take(&mut self.of_product)),
        }
    }

    /// Reports a state under the current path.
    pub fn state(&mut self, state: &State) {
        if let Sink::All(found) = &mut self.sink {
            found(&self.path, Found::State(state));
        }
    }
}

impl std::fmt::Debug for Visitor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Visitor").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Module for Param {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.param(self);
        if let Some(adapter) = self.adapter() {
            adapter.visit(visitor);
        }
    }
}

impl Module for State {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.state(self);
    }
}

macro_rules! through {
    ($($pointer:ty),*) => {$(
        impl<M: Module + ?Sized> Module for $pointer {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                (**self).visit(visitor);
            }
        }
    )*};
}
through!(&M, Box<M>, Arc<M>, Rc<M>);

impl<M: Module> Module for Option<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if let Some(module) = self {
            module.visit(visitor);
        }
    }
}

impl<M: Module> Module for [M] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (i, module) in self.iter().enumerate() {
            visitor.field(&i.to_string(), module);
        }
    }
}

impl<M: Module> Module for Vec<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.as_slice().visit(visitor);
    }
}

impl<M: Module, const N: usize> Module for [M; N] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.as_slice().visit(visitor);
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+);)*) => {$(
        impl<$($name: Module),+> Module for ($($name,)+) {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                $(visitor.field(stringify!($index), &self.$index);)+
            }
        }
    )*};
}
tuples! { (A 0); (A 0, B 1); (A 0, B 1, C 2); (A 0, B 1, C 2, D 3); }

impl<T: ?Sized> Module for std::marker::PhantomData<T> {
    fn visit(&self, _: &mut Visitor<'_>) {}
}

macro_rules! without_parameters {
    ($($ty:ty),*) => {$(
        impl Module for $ty {
            fn visit(&self, _: &mut Visitor<'_>) {}
        }
    )*};
}
without_parameters!(
    (),
    bool,
    u8,
    u16,
    u32,
    u64,
    usize,
    i8,
    i16,
    i32,
    i64,
    isize,
    f32,
    f64,
    char,
    str,
    String
);
