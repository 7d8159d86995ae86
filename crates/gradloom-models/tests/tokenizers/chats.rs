//! Tests of chat templates.

use crate::{data, json, open};
use gradloom_models::data::{Bpe, Message, Roles, TokenizerError};
use std::time::{Duration, SystemTime};

fn with_template(template: &str) -> Bpe {
    let tokenizer = open("llama3");
    let roles = Roles { chat_template: Some(template.to_string()), ..tokenizer.roles().clone() };
    tokenizer.with_roles(roles)
}

#[test]
fn texts_are_those_of_transformers() {
    let file = json("chats.json");
    let rows = file["chats"].as_array().unwrap();
    assert_eq!(rows.len(), 18);
    for row in rows {
        let template = file["templates"][row["template"].as_str().unwrap()].as_str().unwrap();
        let messages: Vec<Message> = serde_json::from_value(row["messages"].clone()).unwrap();
        let text = with_template(template).apply_chat_template(&messages, row["prompt"].as_bool().unwrap());
        match row["text"].as_str() {
            Some(expected) => assert_eq!(text.unwrap(), expected, "{row}"),
            None => assert!(matches!(text, Err(TokenizerError::Template { .. })), "{row}: {text:?}"),
        }
    }
}

/// Renders templates that cover all features used by published ones.
#[test]
fn texts_of_many_templates_are_those_of_transformers() {
    let file = json("templates.json");
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(file["now"].as_u64().unwrap());
    let (templates, rows) = (file["templates"].as_array().unwrap(), file["chats"].as_array().unwrap());
    assert!(templates.len() >= 67 && rows.len() == 6 * templates.len());
    let mut differ = Vec::new();
    for row in rows {
        let template = templates[row["template"].as_u64().unwrap() as usize].as_str().unwrap();
        let roles = Roles {
            bos: Some("<s>".into()),
            eos: Some("</s>".into()),
            chat_template: Some(template.to_string()),
            ..Roles::default()
        };
        let messages: Vec<Message> = serde_json::from_value(row["messages"].clone()).unwrap();
        let tokenizer = open("llama3").with_roles(roles);
        let text = tokenizer.chat_text(&messages, row["prompt"].as_bool().unwrap(), now);
        match (&text, row["text"].as_str()) {
            (Ok(text), Some(expected)) if text == expected => {}
            (Err(TokenizerError::Template { .. }), None) => {}
            (_, expected) => differ.push(format!("{template}\n  {text:?}\n  {expected:?}")),
        }
    }
    differ.dedup_by_key(|text| text.lines().next().unwrap_or_default().to_string());
    assert!(differ.is_empty(), "{}", differ.join("\n\n"));
}

#[test]
fn what_is_wrong_is_named() {
    let wrong =
        |template: &str| with_template(template).apply_chat_template(&[], false).unwrap_err().to_string();
    let name = data("llama3/tokenizer.json").display().to_string();
    assert_eq!(
        open("llama3").apply_chat_template(&[], false).unwrap_err().to_string(),
        format!("{name} has no chat template")
    );
    let refused = wrong("\n{{ raise_exception('no system') }}");
    assert_eq!(refused, format!("the chat template of {name}: line 2: no system"));
    assert!(wrong("{% if %}").contains("line 1: "), "{}", wrong("{% if %}"));
    assert!(wrong("{{ nothing() }}").contains("nothing"), "{}", wrong("{{ nothing() }}"));
    // Unsupported features are rejected by name and line.
    for (template, name) in [
        ("{{ 'a b' | wordwrap(1) }}", "wordwrap"),
        ("{{ '<p>' | striptags }}", "striptags"),
        ("{{ [1] | random }}", "random"),
        ("{{ lipsum() }}", "lipsum"),
        (r"{{ '\N{BULLET}' }}", r"\N{...}"),
        ("{{ strftime_now('%E') }}", "%E"),
        ("{{ '%y' % 1 }}", "%y"),
        ("{{ 'a'.encode('latin-1') }}", "latin-1"),
        ("{{ 'a'.format_map({}) }}", "format_map"),
        ("{% block a %}{% endblock %}", "block"),
        ("{% for a in [1] %}{% with %}{% continue %}{% endwith %}{% endfor %}", "`continue` within a `with`"),
        ("{% for a in [1] %}{% set q %}{% break %}{% endset %}{% endfor %}", "`break` within a `set`"),
        (
            "{% for a in [1] %}{% filter upper %}{% break %}{% endfilter %}{% endfor %}",
            "`break` within a `filter`",
        ),
    ] {
        let reason = wrong(&format!("\n{template}"));
        assert!(reason.contains("line 2: ") && reason.contains(name), "{reason}");
    }
    // A template that runs for too long or produces too much output is stopped.
    let wide =
        "{% set ns = namespace(x=[0]) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
    let nested =
        "{% set ns = namespace(x=[]) %}{% for a in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    assert!(wrong(&format!("{wide}{{{{ ns.x }}}}")).contains("too large"));
    for print in ["{{ ns.x }}", "{{ ns.x | tojson }}", "{{ '%s' % ns.x }}", "{{ ns.x | pprint }}"] {
        assert!(wrong(&format!("{nested}{print}")).contains("too deep"), "{print}");
    }
    let long = "{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}x\
                {% endfor %}{% endfor %}{% endfor %}";
    assert!(!wrong(long).is_empty());
    let deep = format!("{}1{}", "{% if 1 %}".repeat(5000), "{% endif %}".repeat(5000));
    assert!(!wrong(&deep).is_empty());
}
