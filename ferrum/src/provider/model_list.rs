//! The models that a provider offers, read from its own list. Pure.

use super::ProviderError;
use super::error::one_line;
use serde_json::Value;

/// Models of one list that are kept.
const MODELS_MAX: usize = 10_000;

/// One model as the provider lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// What requests name.
    pub id: String,
    /// What people call it, where that differs.
    pub name: Option<String>,
    /// The length of its context in tokens, where the list says so.
    pub context_tokens: Option<u64>,
}

/// Reads a list of any of the known forms: `data`, `models`, or the bare list, of objects or names.
///
/// # Errors
/// [`ProviderError::Malformed`] when it is none.
pub fn parse(body: &[u8]) -> Result<Vec<Model>, ProviderError> {
    let not_a_list = || {
        let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
        ProviderError::Malformed(format!("{:?} is not a list of models", one_line(&text)))
    };
    let value: Value = serde_json::from_slice(body).map_err(|_| not_a_list())?;
    let list = ["data", "models"]
        .iter()
        .find_map(|key| value.get(*key)?.as_array());
    let list = list.or(value.as_array()).ok_or_else(not_a_list)?;
    let mut found: Vec<(i64, Model)> = list.iter().take(MODELS_MAX).filter_map(model).collect();
    found.sort_by_key(|(priority, _)| *priority);
    Ok(found.into_iter().map(|(_, model)| model).collect())
}

/// With its rank where the list states one; hidden models are left out.
fn model(entry: &Value) -> Option<(i64, Model)> {
    let text = |key: &str| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    if text("visibility").is_some_and(|word| word != "list") {
        return None;
    }
    let id = ["id", "slug", "model", "name"].iter().find_map(|key| text(key));
    let id = one_line(id.or(entry.as_str())?);
    let name = text("display_name").map(one_line).filter(|name| *name != id);
    let number = |path: &[&str]| {
        let found = path.iter().try_fold(entry, |at, key| at.get(*key));
        found.and_then(Value::as_u64).filter(|n| *n > 0)
    };
    let context_tokens = number(&["context_window"])
        .or_else(|| number(&["context_length"]))
        .or_else(|| number(&["max_model_len"]))
        .or_else(|| number(&["meta", "n_ctx"]));
    let priority = entry.get("priority").and_then(Value::as_i64).unwrap_or(0);
    let model = Model {
        id,
        name,
        context_tokens,
    };
    Some((priority, model))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(body: &str) -> Vec<String> {
        parse(body.as_bytes())
            .unwrap()
            .into_iter()
            .map(|model| model.id)
            .collect()
    }

    #[test]
    fn every_form_of_list_is_read() {
        assert_eq!(
            ids(r#"{"object":"list","data":[{"id":"a"},{"id":""},{}]}"#),
            ["a"]
        );
        assert_eq!(
            ids(
                r#"{"models":[{"name":"x","model":"x"}],"object":"list","data":[{"id":"x","meta":{"n_ctx":4096}}]}"#
            ),
            ["x"]
        );
        assert_eq!(ids(r#"["a","b"]"#), ["a", "b"]);
        let body = r#"{"models":[{"slug":"late","priority":9,"visibility":"list"},
            {"slug":"hidden","visibility":"none"},
            {"slug":"early","display_name":"Early","priority":1,"context_window":272000}]}"#;
        let models = parse(body.as_bytes()).unwrap();
        assert_eq!(models[0].name.as_deref(), Some("Early"));
        assert_eq!(models[0].context_tokens, Some(272_000));
        assert_eq!((models[1].id.as_str(), models.len()), ("late", 2));
        for bad in ["", "{}", "<html>", r#"{"data":5}"#] {
            assert!(
                matches!(parse(bad.as_bytes()), Err(ProviderError::Malformed(_))),
                "{bad}"
            );
        }
    }
}
