//! The `#[module(..)]` attribute.
//!
//! In: the attributes of an item or a field. Out: whether the field is skipped, or an error at a misplaced
//! attribute. Attributes with other names are ignored because they belong to other macros.

use syn::{Attribute, Error, Result};

/// Returns `true` if a field is marked with `#[module(skip)]`.
pub(crate) fn is_skipped(attributes: &[Attribute]) -> Result<bool> {
    let mut skipped = false;
    for attribute in ours(attributes) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("skip") {
                return Err(meta.error("unknown argument: a field is left out with `#[module(skip)]`"));
            }
            if skipped {
                return Err(meta.error("`skip` is given twice"));
            }
            skipped = true;
            Ok(())
        })?;
    }
    Ok(skipped)
}

/// Returns an error if a struct, an enum or a variant has a `#[module(..)]` attribute.
pub(crate) fn reject_on_item(attributes: &[Attribute]) -> Result<()> {
    match ours(attributes).next() {
        None => Ok(()),
        Some(attribute) => Err(Error::new_spanned(attribute, "`#[module(..)]` belongs on a field")),
    }
}

fn ours(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("module"))
}
