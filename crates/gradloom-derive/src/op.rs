//! Expansion of `#[op]`, over tokens alone: bodies keep their spans, so errors in them point at the source.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::quote;

/// Returns the function with the attributes and the statement that `#[op]` adds, or an error if it is none.
pub(crate) fn op(function: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = function.into_iter().collect();
    let is_fn = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "fn");
    let name = tokens.iter().skip_while(|token| !is_fn(token)).nth(1).cloned();
    let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) = (name, tokens.pop()) else {
        let message = "`#[op]` belongs on a function with a body";
        return syn::Error::new(Span::call_site(), message).to_compile_error();
    };
    let (name, statements) = (name.to_string(), body.stream());
    let called = quote!(let _called = crate::trace::acting(#name); #statements);
    let mut whole = Group::new(Delimiter::Brace, called);
    whole.set_span(body.span());
    quote!(#[track_caller] #[must_use] #(#tokens)* #whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_begin_with_the_name() {
        let given = quote! {
            /// Returns `x`.
            #[doc(alias = "fn")]
            pub fn same<F: Fn(u8) -> u8>(x: [u8; { 1 }]) -> u8 { f(x) }
        };
        let expected = quote! {
            #[track_caller]
            #[must_use]
            /// Returns `x`.
            #[doc(alias = "fn")]
            pub fn same<F: Fn(u8) -> u8>(x: [u8; { 1 }]) -> u8 {
                let _called = crate::trace::acting("same");
                f(x)
            }
        };
        assert_eq!(op(given).to_string(), expected.to_string());
    }

    #[test]
    fn other_items_are_errors() {
        for other in [
            quote!(
                struct Same;
            ),
            quote!(
                fn same();
            ),
            quote!(fn),
            quote!(),
        ] {
            assert!(op(other).to_string().contains("belongs on a function with a body"));
        }
    }
}
