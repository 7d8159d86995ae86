//! Compiles the generated code against a stand-in for `gradloom::nn` with the same two items.
//!
//! Warnings are errors here because users cannot fix warnings in generated code.
#![deny(warnings)]

extern crate self as gradloom;

use gradloom_derive::{Module, op};
use std::marker::PhantomData;

/// Items that the generated code refers to.
pub mod nn {
    /// Collects the paths of the leaves.
    pub struct Visitor<'a> {
        /// Path of the module that is being visited.
        pub path: String,
        /// Paths of the leaves found so far.
        pub leaves: &'a mut Vec<String>,
    }

    impl Visitor<'_> {
        /// Visits a field.
        pub fn field(&mut self, name: &str, module: &dyn Module) {
            let path = if self.path.is_empty() { name.to_string() } else { format!("{}.{name}", self.path) };
            module.visit(&mut Visitor { path, leaves: self.leaves });
        }
    }

    /// A module of the stand-in crate.
    pub trait Module {
        /// Visits the fields.
        fn visit(&self, visitor: &mut Visitor<'_>);
    }

    impl<T: Module> Module for Vec<T> {
        fn visit(&self, visitor: &mut Visitor<'_>) {
            self.iter().enumerate().for_each(|(index, item)| visitor.field(&index.to_string(), item));
        }
    }

    impl<T: ?Sized> Module for std::marker::PhantomData<T> {
        fn visit(&self, _: &mut Visitor<'_>) {}
    }
}

/// Items that `#[op]` refers to.
mod trace {
    use std::panic::Location;

    /// Returns the name and the line of the call.
    #[track_caller]
    pub(crate) fn acting(name: &'static str) -> (&'static str, u32) {
        (name, Location::caller().line())
    }
}

struct Leaf;

impl nn::Module for Leaf {
    fn visit(&self, visitor: &mut nn::Visitor<'_>) {
        visitor.leaves.push(visitor.path.clone());
    }
}

fn leaves(module: &dyn nn::Module) -> Vec<String> {
    let mut leaves = Vec::new();
    module.visit(&mut nn::Visitor { path: String::new(), leaves: &mut leaves });
    leaves
}

#[derive(Module)]
struct Linear {
    weight: Leaf,
    bias: Leaf,
}

fn linear() -> Linear {
    Linear { weight: Leaf, bias: Leaf }
}

#[derive(Module)]
struct Pair<A, B>(A, #[module(skip)] fn() -> &'static str, B);

#[derive(Module)]
struct Unit;

#[derive(Module)]
struct Tree<T> {
    r#type: T,
    children: Vec<Tree<T>>,
}

trait Architecture {
    type Head;
}

struct Classifier;

impl Architecture for Classifier {
    type Head = Linear;
}

#[derive(Module)]
struct Model<'a, A: Architecture, const N: usize> {
    visitor: A::Head,
    heads: Vec<<A as Architecture>::Head>,
    unit: Unit,
    marker: PhantomData<A>,
    #[module(skip)]
    names: [&'a str; N],
}

#[test]
fn fields_are_visited_in_order_under_their_names() {
    let pair = Pair(linear(), || "not a module", vec![linear(), linear()]);
    assert_eq!(leaves(&pair), ["0.weight", "0.bias", "2.0.weight", "2.0.bias", "2.1.weight", "2.1.bias"]);
    assert_eq!((pair.1)(), "not a module");
    assert_eq!(leaves(&Unit), [""; 0]);
}

#[derive(Module)]
enum Choice<A> {
    One(A),
    Both { first: A, second: Vec<A> },
    Pair(A, #[module(skip)] &'static str, A),
    None,
}

#[derive(Module)]
enum Never {}

#[test]
fn the_variant_that_is_there_is_visited() {
    let layers = (Choice::One(linear()), Choice::Both { first: linear(), second: vec![linear()] });
    assert_eq!(leaves(&layers.0), ["weight", "bias"]);
    assert_eq!(leaves(&layers.1), ["first.weight", "first.bias", "second.0.weight", "second.0.bias"]);
    let pair = Choice::Pair(linear(), "not a module", linear());
    assert_eq!(leaves(&pair), ["0.weight", "0.bias", "2.weight", "2.bias"]);
    assert!(matches!(pair, Choice::Pair(_, "not a module", _)));
    assert_eq!(leaves(&Choice::<Linear>::None), [""; 0]);
    assert_eq!(leaves(&Vec::<Never>::new()), [""; 0]);
}

#[test]
fn a_type_that_holds_itself() {
    let tree = Tree { r#type: Leaf, children: vec![Tree { r#type: Leaf, children: Vec::new() }] };
    assert_eq!(leaves(&tree), ["type", "children.0.type"]);
}

#[test]
fn associated_types_lifetimes_and_constants() {
    let model = Model::<Classifier, 1> {
        visitor: linear(),
        heads: vec![linear()],
        unit: Unit,
        marker: PhantomData,
        names: ["a"],
    };
    assert_eq!(leaves(&model), ["visitor.weight", "visitor.bias", "heads.0.weight", "heads.0.bias"]);
    assert_eq!(model.names, ["a"]);
}

macro_rules! declared {
    ($name:ident) => {
        /// Returns the line of the call.
        #[op]
        fn $name<T>(_: impl Fn(T) -> T) -> u32
        where
            T: Default,
        {
            std::panic::Location::caller().line()
        }
    };
}
declared!(twice);

#[test]
fn ops_know_the_line_of_their_call() {
    let (line, called) = (line!(), twice(|x: u32| 2 * x));
    assert_eq!(called, line);
}
