//! The `Module` bounds of a generic type.
//!
//! In: the type's generics and the types of its visited fields. Out: the generics with the bounds that the
//! implementation needs. The rules are those of serde's derives: a type parameter that a field uses is
//! bounded, an associated type (`A::Head`) is bounded itself, and `PhantomData<T>` does not require a bound
//! on `T`. Bounds on whole field types would be more precise, but would recurse forever for a type that
//! contains itself in a `Vec`.

use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{GenericParam, Generics, Ident, Path, Type, TypePath, parse_quote};

/// Returns `generics` with a `Module` bound for each parameter and associated type that `fields` use.
pub(crate) fn with_module_bounds<'a>(
    generics: &Generics,
    fields: impl Iterator<Item = &'a Type>,
) -> Generics {
    let parameters = generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => Some(&parameter.ident),
            GenericParam::Lifetime(_) | GenericParam::Const(_) => None,
        })
        .collect();
    let mut uses = Uses { parameters, bounded: Vec::new() };
    fields.for_each(|field| uses.visit_type(field));

    let mut generics = generics.clone();
    if !uses.bounded.is_empty() {
        let predicates = &mut generics.make_where_clause().predicates;
        for ty in uses.bounded {
            predicates.push(parse_quote!(#ty: ::gradloom::nn::Module));
        }
    }
    generics
}

/// The type parameters and their associated types that occur in the visited types, without duplicates, in
/// order of first occurrence.
struct Uses<'a> {
    parameters: Vec<&'a Ident>,
    bounded: Vec<&'a TypePath>,
}

impl Uses<'_> {
    fn starts_with_parameter(&self, path: &Path) -> bool {
        path.leading_colon.is_none()
            && path.segments.first().is_some_and(|segment| self.parameters.contains(&&segment.ident))
    }

    /// Returns `true` if the type is `<T as Trait>::Name` for a type parameter `T`.
    fn is_qualified_parameter(&self, ty: &TypePath) -> bool {
        match ty.qself.as_ref().map(|qualified| &*qualified.ty) {
            Some(Type::Path(inner)) => inner.qself.is_none() && self.starts_with_parameter(&inner.path),
            _ => false,
        }
    }
}

impl<'a> Visit<'a> for Uses<'a> {
    fn visit_type_path(&mut self, ty: &'a TypePath) {
        if (ty.qself.is_none() && self.starts_with_parameter(&ty.path)) || self.is_qualified_parameter(ty) {
            // Compare the types as text: syn's syntax trees implement `PartialEq` only with its
            // `extra-traits` feature, which would slow down every user's build.
            let text = |ty: &TypePath| ty.to_token_stream().to_string();
            if self.bounded.iter().all(|bounded| text(bounded) != text(ty)) {
                self.bounded.push(ty);
            }
        } else if ty.path.segments.last().is_none_or(|segment| segment.ident != "PhantomData") {
            visit::visit_type_path(self, ty);
        }
    }
}
