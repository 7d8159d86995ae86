//! Control tokens and the chat template in a tokenizer's folder.
//!
//! In: `tokenizer_config.json`, merged with the other files. Out: [`Roles`], and the configuration for
//! saving. Invariant: a role that no file assigns is `None`; the configuration is saved unchanged except
//! for modified roles.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Tokens that have a role, and the chat template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roles {
    /// Token at the beginning of a text.
    pub bos: Option<String>,
    /// Token at the end of a text.
    pub eos: Option<String>,
    /// Token for unknown text.
    pub unk: Option<String>,
    /// Token that pads a batch.
    pub pad: Option<String>,
    /// Jinja template that converts messages to text.
    pub chat_template: Option<String>,
    /// All contents of `tokenizer_config.json`, including other roles. They are saved together with the
    /// tokenizer.
    pub config: Map<String, Value>,
}

/// Candidates for the end-of-text token if no file assigns it.
pub(super) const END_OF_TEXT: [&str; 4] = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"];

impl Roles {
    /// Returns the roles in a configuration.
    pub(super) fn of_config(config: Map<String, Value>) -> Self {
        let role = |name: &str| config.get(name).and_then(content).map(str::to_string);
        let [bos, eos, unk, pad] = ["bos_token", "eos_token", "unk_token", "pad_token"].map(role);
        let chat_template = config.get("chat_template").and_then(template).map(str::to_string);
        Self { bos, eos, unk, pad, chat_template, config }
    }

    /// Returns the configuration, updated with the current roles and chat template.
    pub(super) fn to_config(&self) -> Map<String, Value> {
        let mut config = self.config.clone();
        let template = (self.chat_template.as_deref(), config.get("chat_template").and_then(template));
        if template.0 != template.1 {
            config.insert("chat_template".into(), self.chat_template.clone().into());
        }
        for (name, role) in self.own() {
            if config.get(name).and_then(content) != role {
                config.insert(name.into(), role.into());
            }
        }
        config
    }

    /// Returns all named tokens, by names such as `eos_token`.
    pub(super) fn named(&self) -> BTreeMap<String, String> {
        let mut named: BTreeMap<String, String> = named(&self.config)
            .filter_map(|(name, token)| Some((name.clone(), content(token)?.to_string())))
            .collect();
        for (name, role) in self.own() {
            match role {
                Some(role) => named.insert(name.to_string(), role.to_string()),
                None => named.remove(name),
            };
        }
        named
    }

    fn own(&self) -> [(&'static str, Option<&str>); 4] {
        let Self { bos, eos, unk, pad, .. } = self;
        [("bos_token", bos), ("eos_token", eos), ("unk_token", unk), ("pad_token", pad)]
            .map(|(name, role)| (name, role.as_deref()))
    }
}

/// Returns the text of a token, which is a string or an object with flags.
pub(super) fn content(token: &Value) -> Option<&str> {
    token["content"].as_str().or(token.as_str())
}

/// Returns the named tokens of a configuration: those with keys that end in `_token`, and those in the object
/// `extra_special_tokens`.
pub(super) fn named(config: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let of_keys = config.iter().filter(|(name, _)| name.ends_with("_token"));
    let extra = config.get("extra_special_tokens").and_then(Value::as_object).into_iter().flatten();
    of_keys.chain(extra).filter(|(_, token)| content(token).is_some())
}

/// Returns the chat template: the only one, or the one named `default` in a list.
fn template(templates: &Value) -> Option<&str> {
    let mut list = templates.as_array().into_iter().flatten();
    let default = list.find(|template| template["name"] == "default");
    default.map_or(templates, |template| &template["template"]).as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A configuration is saved as it was read, including other keys, flags and lists of templates.
    #[test]
    fn a_configuration_changes_where_roles_do() {
        let config = json!({
            "bos_token": {"content": "<s>", "rstrip": true}, "pad_token": null, "sep_token": "<sep>",
            "chat_template": [{"name": "tools", "template": "a"}, {"name": "default", "template": "b"}],
            "extra_special_tokens": {"image_token": "<i>"}, "model_max_length": 7, "add_bos_token": true,
        });
        let config = config.as_object().unwrap().clone();
        let mut roles = Roles::of_config(config.clone());
        assert_eq!((roles.bos.as_deref(), roles.pad.as_deref()), (Some("<s>"), None));
        assert_eq!(roles.chat_template.as_deref(), Some("b"));
        let named: Vec<_> = roles.named().into_iter().collect();
        let pair = |name: &str, token: &str| (name.to_string(), token.to_string());
        assert_eq!(named, [pair("bos_token", "<s>"), pair("image_token", "<i>"), pair("sep_token", "<sep>")]);
        assert_eq!(roles.to_config(), config);
        roles.bos = None;
        roles.eos = Some("</s>".into());
        roles.chat_template = Some("c".into());
        let mut changed = config;
        changed.insert("bos_token".into(), Value::Null);
        changed.insert("eos_token".into(), json!("</s>"));
        changed.insert("chat_template".into(), json!("c"));
        assert_eq!(roles.to_config(), changed);
        assert_eq!(Roles::of_config(changed).named(), roles.named());
        assert_eq!(Roles::default().to_config(), Map::new());
    }
}
