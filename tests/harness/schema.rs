//! Values against the JSON Schemas of `docs/schema`: the part of draft 2020-12 that they use. A
//! keyword that is not known here is an error, so that no rule is passed over.

use crate::place::sources;
use serde_json::{Map, Value};

/// One schema file.
pub struct Schema {
    root: Value,
}

impl Schema {
    /// `docs/schema/<name>`.
    ///
    /// # Panics
    /// When it is not there or no JSON.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let path = sources().join("docs/schema").join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let root = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self { root }
    }

    /// # Panics
    /// When the value is not as the schema says.
    #[track_caller]
    pub fn expect(&self, value: &Value) {
        let faults = self.faults(value);
        assert!(faults.is_empty(), "{}\nin {value:#}", faults.join("\n"));
    }

    /// What is wrong with `value`.
    #[must_use]
    pub fn faults(&self, value: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        self.check(&self.root, value, "", &mut faults);
        faults
    }

    fn check(&self, rules: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        let Some(rules) = rules.as_object() else {
            if rules != &Value::Bool(true) {
                faults.push(format!("{at}: may not be there"));
            }
            return;
        };
        for (keyword, rule) in rules {
            let holds = match keyword.as_str() {
                "$schema" | "$id" | "$defs" | "title" | "description" | "additionalProperties" => true,
                "$ref" => {
                    let name = text(rule).trim_start_matches("#/$defs/");
                    self.check(&self.root["$defs"][name], value, at, faults);
                    self.root["$defs"][name].is_object()
                }
                "type" => list(rule).iter().any(|kind| is_of_type(text(kind), value)),
                "enum" => list(rule).contains(value),
                "const" => rule == value,
                "minimum" => value.as_f64().is_none_or(|number| Some(number) >= rule.as_f64()),
                "minItems" => value
                    .as_array()
                    .is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap_or(0)),
                "required" => value
                    .as_object()
                    .is_none_or(|fields| list(rule).iter().all(|name| fields.contains_key(text(name)))),
                "properties" => {
                    self.properties(rules, value, at, faults);
                    true
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(rule, item, &format!("{at}/{index}"), faults);
                    }
                    true
                }
                "oneOf" => list(rule).iter().filter(|one| self.holds(one, value)).count() == 1,
                _ => false,
            };
            if !holds {
                faults.push(format!("{at}: {keyword} {rule} does not hold for {value}"));
            }
        }
    }

    fn properties(&self, rules: &Map<String, Value>, value: &Value, at: &str, faults: &mut Vec<String>) {
        let known = &rules["properties"];
        for (name, field) in value.as_object().into_iter().flatten() {
            let at = format!("{at}/{name}");
            match (known.get(name), rules.get("additionalProperties")) {
                (Some(rules), _) | (None, Some(rules)) => self.check(rules, field, &at, faults),
                (None, None) => {}
            }
        }
    }

    fn holds(&self, rules: &Value, value: &Value) -> bool {
        let mut faults = Vec::new();
        self.check(rules, value, "", &mut faults);
        faults.is_empty()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

fn is_of_type(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}
