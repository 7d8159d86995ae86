//! Tests of the generated tokens and of the errors.

use super::module;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_quote};

#[track_caller]
fn check(input: DeriveInput, expected: TokenStream) {
    let expanded = module(&input).expect("the input can be derived");
    assert_eq!(expanded.to_string(), expected.to_string());
}

#[track_caller]
fn check_errors(input: DeriveInput, expected: &[&str]) {
    let errors = module(&input).expect_err("the input cannot be derived");
    assert_eq!(errors.into_iter().map(|error| error.to_string()).collect::<Vec<_>>(), expected);
}

#[test]
fn named_fields() {
    check(
        parse_quote! {
            pub struct Mlp {
                hidden: Linear,
                pub r#type: Vec<Linear>,
            }
        },
        quote! {
            #[automatically_derived]
            impl ::gradloom::nn::Module for Mlp {
                fn visit(&self, visitor: &mut ::gradloom::nn::Visitor<'_>) {
                    visitor.field("hidden", &self.hidden);
                    visitor.field("type", &self.r#type);
                }
            }
        },
    );
}

#[test]
fn tuple_fields_keep_their_positions_when_one_is_skipped() {
    check(
        parse_quote!(
            struct Pair(Linear, #[module(skip)] Config, Linear);
        ),
        quote! {
            #[automatically_derived]
            impl ::gradloom::nn::Module for Pair {
                fn visit(&self, visitor: &mut ::gradloom::nn::Visitor<'_>) {
                    visitor.field("0", &self.0);
                    visitor.field("2", &self.2);
                }
            }
        },
    );
}

#[test]
fn structs_without_modules() {
    for (input, name) in [
        (
            parse_quote!(
                struct Unit;
            ),
            "Unit",
        ),
        (
            parse_quote!(
                struct Empty {}
            ),
            "Empty",
        ),
        (
            parse_quote!(
                struct Skipped {
                    #[module(skip)]
                    name: String,
                }
            ),
            "Skipped",
        ),
    ] {
        let name = quote::format_ident!("{name}");
        check(
            input,
            quote! {
                #[automatically_derived]
                impl ::gradloom::nn::Module for #name {
                    fn visit(&self, _visitor: &mut ::gradloom::nn::Visitor<'_>) {}
                }
            },
        );
    }
}

#[test]
fn generics() {
    check(
        parse_quote! {
            struct Residual<'a, A: Clone, F = Identity, const N: usize = 2>
            where
                F: Fn(Tensor) -> Tensor,
            {
                inner: [Option<A>; N],
                #[module(skip)]
                activation: F,
                name: &'a str,
            }
        },
        quote! {
            #[automatically_derived]
            impl<'a, A: Clone, F, const N: usize> ::gradloom::nn::Module for Residual<'a, A, F, N>
            where
                F: Fn(Tensor) -> Tensor,
                A: ::gradloom::nn::Module
            {
                fn visit(&self, visitor: &mut ::gradloom::nn::Visitor<'_>) {
                    visitor.field("inner", &self.inner);
                    visitor.field("name", &self.name);
                }
            }
        },
    );
}

#[test]
fn associated_types_are_bounded_themselves() {
    check(
        parse_quote! {
            struct Model<A: Architecture, B, C> {
                head: A::Head,
                heads: Vec<A::Head>,
                body: <A as Architecture>::Body,
                first: B,
                second: (B, Linear),
                marker: std::marker::PhantomData<C>,
                other: crate::C,
            }
        },
        quote! {
            #[automatically_derived]
            impl<A: Architecture, B, C> ::gradloom::nn::Module for Model<A, B, C>
            where
                A::Head: ::gradloom::nn::Module,
                <A as Architecture>::Body: ::gradloom::nn::Module,
                B: ::gradloom::nn::Module
            {
                fn visit(&self, visitor: &mut ::gradloom::nn::Visitor<'_>) {
                    visitor.field("head", &self.head);
                    visitor.field("heads", &self.heads);
                    visitor.field("body", &self.body);
                    visitor.field("first", &self.first);
                    visitor.field("second", &self.second);
                    visitor.field("marker", &self.marker);
                    visitor.field("other", &self.other);
                }
            }
        },
    );
}

#[test]
fn attributes_of_others_are_left_alone() {
    check(
        parse_quote! {
            #[derive(Debug)]
            #[serde(skip)]
            struct Model {
                #[serde(skip)]
                #[doc = "The head."]
                head: Linear,
            }
        },
        quote! {
            #[automatically_derived]
            impl ::gradloom::nn::Module for Model {
                fn visit(&self, visitor: &mut ::gradloom::nn::Visitor<'_>) {
                    visitor.field("head", &self.head);
                }
            }
        },
    );
}

#[test]
fn the_fields_of_an_enums_variants() {
    check(
        parse_quote!(
            enum Block<A> {
                Norm(LayerNorm),
                Named {
                    attention: A,
                    #[module(skip)]
                    heads: fn(),
                },
                Two(Linear, #[module(skip)] u8, Linear),
                None,
            }
        ),
        quote! {
            #[automatically_derived]
            impl<A> ::gradloom::nn::Module for Block<A> where A: ::gradloom::nn::Module {
                fn visit(&self, visitor: &mut ::gradloom::nn::Visitor<'_>) {
                    match self {
                        Self::Norm { 0: field_0, .. } => {
                            ::gradloom::nn::Module::visit(field_0, visitor);
                        }
                        Self::Named { attention: field_0, .. } => {
                            visitor.field("attention", field_0);
                        }
                        Self::Two { 0: field_0, 2: field_1, .. } => {
                            visitor.field("0", field_0);
                            visitor.field("2", field_1);
                        }
                        Self::None { .. } => {}
                    }
                }
            }
        },
    );
    check(
        parse_quote!(
            enum Never {}
        ),
        quote! {
            #[automatically_derived]
            impl ::gradloom::nn::Module for Never {
                fn visit(&self, _visitor: &mut ::gradloom::nn::Visitor<'_>) {
                    match *self {}
                }
            }
        },
    );
}

#[test]
fn unions() {
    check_errors(
        parse_quote!(
            union Bits {
                float: f32,
                word: u32,
            }
        ),
        &["`Module` cannot be derived for a union: use a struct or an enum"],
    );
}

#[test]
fn wrong_attributes_are_all_reported() {
    check_errors(
        parse_quote! {
            #[module(skip)]
            struct Model {
                #[module(ignore)]
                a: Linear,
                #[module(skip, skip)]
                b: Linear,
                #[module]
                c: Linear,
                #[module(skip = true)]
                d: Linear,
            }
        },
        &[
            "`#[module(..)]` belongs on a field",
            "unknown argument: a field is left out with `#[module(skip)]`",
            "`skip` is given twice",
            "expected attribute arguments in parentheses: #[module(...)]",
            "expected `,`",
        ],
    );
}

#[test]
fn wrong_attributes_of_variants_are_all_reported() {
    check_errors(
        parse_quote! {
            enum Norm {
                #[module(skip)]
                Layer(#[module(ignore)] LayerNorm),
            }
        },
        &[
            "`#[module(..)]` belongs on a field",
            "unknown argument: a field is left out with `#[module(skip)]`",
        ],
    );
}

/// Checks that the error's span, which the compiler underlines in the user's code, is `union Bits`.
#[test]
fn the_error_for_a_union_is_at_its_name() {
    let input: DeriveInput = syn::parse_str("#[repr(C)] pub union Bits { word: u32 }").expect("a union");
    let error = module(&input).expect_err("a union cannot be derived");
    let span = error.span();
    assert_eq!((span.start().column, span.end().column), (15, 25));
}
