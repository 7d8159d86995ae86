//! The expansion itself, on parsed input, so that it can be tested outside of the compiler.

use crate::{attributes, bounds};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Index, Member, Result};

/// The implementation of `Module`, or all errors that the input has.
pub(crate) fn module(input: &DeriveInput) -> Result<TokenStream> {
    let fields = struct_fields(input)?;
    let visited = visited(input, fields)?;

    let calls = visited.iter().map(|(member, field)| {
        let name = match member {
            Member::Named(name) => name.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        // A field that is not a module is reported at its type.
        quote_spanned!(field.ty.span()=> visitor.field(#name, &self.#member);)
    });
    let calls = quote!(#(#calls)*);
    // An unused parameter would be a warning in the user's crate.
    let visitor = if visited.is_empty() { format_ident!("_visitor") } else { format_ident!("visitor") };

    let name = &input.ident;
    let generics = bounds::with_module_bounds(&input.generics, visited.iter().map(|(_, field)| &field.ty));
    let (parameters, arguments, conditions) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #parameters ::gradloom::nn::Module for #name #arguments #conditions {
            fn visit(&self, #visitor: &mut ::gradloom::nn::Visitor<'_>) {
                #calls
            }
        }
    })
}

fn struct_fields(input: &DeriveInput) -> Result<&Fields> {
    let name = &input.ident;
    let (item, what) = match &input.data {
        Data::Struct(data) => return Ok(&data.fields),
        Data::Enum(data) => {
            let token = data.enum_token;
            (quote!(#token #name), "an enum")
        }
        Data::Union(data) => {
            let token = data.union_token;
            (quote!(#token #name), "a union")
        }
    };
    let remedy = match input.data {
        Data::Union(_) => "use a struct",
        _ => {
            "implement `gradloom::nn::Module` by hand, with a `match` that visits the fields of each variant"
        }
    };
    Err(Error::new_spanned(item, format!("`Module` cannot be derived for {what}: {remedy}")))
}

/// The fields without `#[module(skip)]`, and how each is reached from `self`.
fn visited<'a>(input: &DeriveInput, fields: &'a Fields) -> Result<Vec<(Member, &'a Field)>> {
    let mut visited = Vec::new();
    let mut errors = attributes::reject_on_item(&input.attrs).err();
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
            Err(error) => match &mut errors {
                Some(errors) => errors.combine(error),
                None => errors = Some(error),
            },
        }
    }
    errors.map_or(Ok(visited), Err)
}

#[cfg(test)]
mod tests;
