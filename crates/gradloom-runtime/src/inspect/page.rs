//! Renders the plan as a self-contained HTML page: a template with the plan's JSON inserted.

const TEMPLATE: &str = include_str!("page.html");

/// Renders the page. `json` is the output of [`gradloom_core::plan::Plan::to_json`], which contains no `<`,
/// so that its text cannot end the page's script.
pub(super) fn page(title: &str, json: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let mut pieces = TEMPLATE.split("{plan}");
    let (before, after) = (pieces.next().unwrap_or_default(), pieces.next().unwrap_or_default());
    [&before.replace("{title}", &title), json, after].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_the_plan_stays_text() {
        let page = page("a < b & {plan}", r#"{"name":"{title}\u003c/script>"}"#);
        assert!(page.contains("<title>a &lt; b &amp; {plan}</title>"));
        assert!(page.contains(r#"id="plan">{"name":"{title}\u003c/script>"}</script>"#));
        assert_eq!(TEMPLATE.matches("{plan}").count(), 1);
        for elsewhere in ["http:", "https:", "src=", "url(", "import", "<link"] {
            assert!(!TEMPLATE.contains(elsewhere), "{elsewhere}");
        }
    }
}
