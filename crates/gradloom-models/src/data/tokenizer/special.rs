//! The tokens of control that a tokenizer's folder names, and its chat template.
//!
//! In: `tokenizer_config.json`, `special_tokens_map.json` and `chat_template.jinja`, each if it is there.
//! Out: [`Roles`]. Always holds: what a file does not say is none; a file that is there must be sound.

use super::TokenizerError;
use super::open::read;
use serde_json::Value;
use std::path::Path;

/// Names of tokens with a role, and the chat template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roles {
    /// Begins a text.
    pub bos: Option<String>,
    /// Ends a text.
    pub eos: Option<String>,
    /// Stands for what has no token.
    pub unk: Option<String>,
    /// Fills a batch up.
    pub pad: Option<String>,
    /// A template in Jinja that makes a text of messages.
    pub chat_template: Option<String>,
}

/// Names of a token that ends a text, where no file names it.
pub(super) const END_OF_TEXT: [&str; 4] = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"];

impl Roles {
    /// What the files of a folder say.
    ///
    /// # Errors
    /// When one of them cannot be read or is no JSON object.
    pub(super) fn of_folder(folder: &Path) -> Result<Self, TokenizerError> {
        let mut roles = Self::default();
        // The first one that names a token counts.
        for name in ["tokenizer_config.json", "special_tokens_map.json"] {
            if let Some(text) = read(&folder.join(name))? {
                roles.add(&text, &folder.join(name).display().to_string())?;
            }
        }
        // Newer files have the template apart; it is then the one that counts.
        if let Some(template) = read(&folder.join("chat_template.jinja"))? {
            roles.chat_template = Some(String::from_utf8_lossy(&template).into_owned());
        }
        Ok(roles)
    }

    fn add(&mut self, text: &[u8], name: &str) -> Result<(), TokenizerError> {
        let malformed = |reason: String| TokenizerError::Malformed { name: name.to_string(), reason };
        let file: Value = serde_json::from_slice(text).map_err(|error| malformed(error.to_string()))?;
        if !file.is_object() {
            return Err(malformed("it is no JSON object".to_string()));
        }
        let token = |role: &str| {
            let given = &file[role];
            given["content"].as_str().or(given.as_str()).map(str::to_string)
        };
        let fields = [
            (&mut self.bos, "bos_token"),
            (&mut self.eos, "eos_token"),
            (&mut self.unk, "unk_token"),
            (&mut self.pad, "pad_token"),
        ];
        for (field, role) in fields {
            *field = field.take().or_else(|| token(role));
        }
        // One template, or a list of named ones of which `default` is the usual one.
        let templates = &file["chat_template"];
        let named = templates.as_array().into_iter().flatten();
        let default = named.into_iter().find(|template| template["name"] == "default");
        let template = default.map_or(templates, |template| &template["template"]);
        self.chat_template = self.chat_template.take().or_else(|| template.as_str().map(str::to_string));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn tokens_are_names_or_objects_and_files_come_in_order() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Roles::of_folder(folder.path()).unwrap(), Roles::default());
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put(
            "tokenizer_config.json",
            r#"{"bos_token": {"content": "<s>"}, "pad_token": null,
            "chat_template": [{"name": "tools", "template": "a"}, {"name": "default", "template": "b"}]}"#,
        );
        put("special_tokens_map.json", r#"{"bos_token": "no", "eos_token": "</s>", "pad_token": "<p>"}"#);
        let roles = Roles::of_folder(folder.path()).unwrap();
        assert_eq!(roles.bos.as_deref(), Some("<s>"));
        assert_eq!(roles.eos.as_deref(), Some("</s>"));
        assert_eq!((roles.unk.as_deref(), roles.pad.as_deref()), (None, Some("<p>")));
        assert_eq!(roles.chat_template.as_deref(), Some("b"));
        put("chat_template.jinja", "c");
        assert_eq!(Roles::of_folder(folder.path()).unwrap().chat_template.as_deref(), Some("c"));
    }

    #[test]
    fn a_damaged_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for (text, expected) in [("{", "EOF while parsing"), ("[]", "it is no JSON object"), ("", "EOF")] {
            fs::write(folder.path().join("special_tokens_map.json"), text).unwrap();
            let error = Roles::of_folder(folder.path()).unwrap_err().to_string();
            assert!(error.contains("special_tokens_map.json: ") && error.contains(expected), "{error}");
        }
    }
}
