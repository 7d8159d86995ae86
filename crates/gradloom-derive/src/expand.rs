//! Expansion of the derive macro, separate from the entry point so that it can be tested outside the
//! compiler.

use crate::{attributes, bounds};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Error, Field, Fields, Ident, Index, Member, Result, Type};

/// Returns the implementation of `Module`, or all errors in the input.
pub(crate) fn module(input: &DeriveInput) -> Result<TokenStream> {
    let mut errors = attributes::reject_on_item(&input.attrs).err();
    let name = &input.ident;
    let (body, types) = match &input.data {
        Data::Struct(data) => {
            let visited = visited(&data.fields, &mut errors);
            let calls = visited.iter().map(|(member, field)| call(member, field, quote!(&self.#member)));
            (quote!(#(#calls)*), visited.iter().map(|(_, field)| &field.ty).collect())
        }
        Data::Enum(data) => variants(data, &mut errors),
        Data::Union(data) => {
            let token = data.union_token;
            let message = "`Module` cannot be derived for a union: use a struct or an enum";
            return Err(Error::new_spanned(quote!(#token #name), message));
        }
    };
    errors.map_or(Ok(()), Err)?;

    // Underscore the parameter if it is unused, to avoid a warning in the user's crate.
    let visitor = if types.is_empty() { format_ident!("_visitor") } else { format_ident!("visitor") };
    let generics = bounds::with_module_bounds(&input.generics, types.into_iter());
    let (parameters, arguments, conditions) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #parameters ::gradloom::nn::Module for #name #arguments #conditions {
            fn visit(&self, #visitor: &mut ::gradloom::nn::Visitor<'_>) {
                #body
            }
        }
    })
}

/// Returns the match over an enum's variants and the types of the visited fields. The field of a one-field
/// tuple variant is visited without a name, as in `Some(..)`.
fn variants<'a>(data: &'a DataEnum, errors: &mut Option<Error>) -> (TokenStream, Vec<&'a Type>) {
    let mut types = Vec::new();
    let mut arms = Vec::new();
    for variant in &data.variants {
        if let Err(error) = attributes::reject_on_item(&variant.attrs) {
            add(errors, error);
        }
        let visited = visited(&variant.fields, errors);
        types.extend(visited.iter().map(|(_, field)| &field.ty));
        let names: Vec<Ident> = (0..visited.len()).map(|i| format_ident!("field_{i}")).collect();
        let bound = visited.iter().zip(&names).map(|((member, _), name)| quote!(#member: #name));
        let is_alone = matches!(&variant.fields, Fields::Unnamed(fields) if fields.unnamed.len() == 1);
        let calls = visited.iter().zip(&names).map(|((member, field), name)| match is_alone {
            true => {
                quote_spanned!(field.ty.span()=> ::gradloom::nn::Module::visit(#name, visitor);)
            }
            false => call(member, field, quote!(#name)),
        });
        let name = &variant.ident;
        arms.push(quote!(Self::#name { #(#bound,)* .. } => { #(#calls)* }));
    }
    // Match on `*self` if the enum has no variants: `match self {}` does not compile because a reference
    // always has a value.
    let body = if arms.is_empty() { quote!(match *self {}) } else { quote!(match self { #(#arms)* }) };
    (body, types)
}

/// Returns the statement that visits a field under its name. If the field is not a module, the compiler
/// reports the error at the field's type.
fn call(member: &Member, field: &Field, value: TokenStream) -> TokenStream {
    let name = match member {
        Member::Named(name) => name.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    };
    quote_spanned!(field.ty.span()=> visitor.field(#name, #value);)
}

fn add(errors: &mut Option<Error>, error: Error) {
    match errors {
        Some(errors) => errors.combine(error),
        None => *errors = Some(error),
    }
}

/// Returns the fields without `#[module(skip)]`, each with the member that accesses it.
fn visited<'a>(fields: &'a Fields, errors: &mut Option<Error>) -> Vec<(Member, &'a Field)> {
    let mut visited = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        match attributes::is_skipped(&field.attrs) {
            Ok(true) => {}
            Ok(false) => {
                let member = match &field.ident {
                    Some(name) => Member::Named(name.clone()),
                    None => Member::Unnamed(Index::from(index)),
                };
                visited.push((member, field));
            }
            Err(error) => add(errors, error),
        }
    }
    visited
}

#[cfg(test)]
mod tests;
