//! A strict reader of the JSON Schemas in this repository. It knows the keywords that they use;
//! any other is a fault of the schema, not something to pass over.

use serde_json::Value;

/// One schema document.
pub struct Schema {
    root: Value,
}

/// Words that say nothing about validity.
const REMARKS: [&str; 4] = ["$schema", "$defs", "title", "description"];

impl Schema {
    /// # Panics
    /// When the text is no JSON.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self {
            root: serde_json::from_str(text).expect("a schema is JSON"),
        }
    }

    /// Checks a value against the document.
    ///
    /// # Errors
    /// Where and why it does not fit.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.fits(&self.root, value, "$")
    }

    fn fits(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let rules = schema.as_object().expect("a schema is an object");
        for (word, rule) in rules {
            match word.as_str() {
                word if REMARKS.contains(&word) => {}
                "$ref" => self.fits(self.definition(rule), value, at)?,
                "const" if rule != value => return Err(format!("{at}: {value} is not {rule}")),
                "enum" if !list(rule).contains(value) => {
                    return Err(format!("{at}: {value} is none of {rule}"));
                }
                "type" if !is_of(rule, value) => return Err(format!("{at}: {value} is not of type {rule}")),
                "minimum" if value.as_i64().is_some_and(|n| n < rule.as_i64().unwrap_or(0)) => {
                    return Err(format!("{at}: {value} is below {rule}"));
                }
                "required" => required(rule, value, at)?,
                "properties" => self.properties(rule, value, at)?,
                "additionalProperties" => no_others(rules.get("properties"), rule, value, at)?,
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.fits(rule, item, &format!("{at}[{index}]"))?;
                    }
                }
                "oneOf" | "anyOf" => self.one_of(rule, value, at)?,
                "const" | "enum" | "type" | "minimum" => {}
                other => panic!("the schema uses {other:?}, which this reader does not know"),
            }
        }
        Ok(())
    }

    fn definition(&self, reference: &Value) -> &Value {
        let path = reference.as_str().expect("a reference is a text");
        let pointer = path.strip_prefix('#').expect("a reference into this document");
        self.root
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{path} is not defined"))
    }

    fn properties(&self, rule: &Value, value: &Value, at: &str) -> Result<(), String> {
        for (name, schema) in rule.as_object().into_iter().flatten() {
            if let Some(value) = value.get(name) {
                self.fits(schema, value, &format!("{at}.{name}"))?;
            }
        }
        Ok(())
    }

    fn one_of(&self, rule: &Value, value: &Value, at: &str) -> Result<(), String> {
        let results: Vec<Result<(), String>> = list(rule)
            .iter()
            .map(|schema| self.fits(schema, value, at))
            .collect();
        if results.iter().filter(|result| result.is_ok()).count() == 1 {
            return Ok(());
        }
        // The nearest miss is the one of the same type, which fails on something else.
        let misses = results.into_iter().filter_map(Result::err);
        let nearest = misses
            .filter(|miss| !miss.starts_with(&format!("{at}.type:")))
            .collect::<Vec<_>>();
        Err(format!(
            "{at}: fits not exactly one of the choices: {}",
            nearest.join("; ")
        ))
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn required(rule: &Value, value: &Value, at: &str) -> Result<(), String> {
    let missing = list(rule)
        .iter()
        .filter_map(Value::as_str)
        .find(|name| value.get(name).is_none());
    missing.map_or(Ok(()), |name| Err(format!("{at}: {name} is missing")))
}

fn no_others(known: Option<&Value>, rule: &Value, value: &Value, at: &str) -> Result<(), String> {
    assert_eq!(*rule, Value::Bool(false), "only the closed form is known");
    let known = known.and_then(Value::as_object).expect("properties beside it");
    let mut names = value.as_object().into_iter().flatten().map(|(name, _)| name);
    match names.find(|name| !known.contains_key(*name)) {
        Some(name) => Err(format!("{at}: {name} is not known")),
        None => Ok(()),
    }
}

fn is_of(rule: &Value, value: &Value) -> bool {
    let one = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("the schema uses the type {other:?}, which this reader does not know"),
    };
    match rule {
        Value::String(name) => one(name),
        names => list(names).iter().filter_map(Value::as_str).any(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_does_not_fit_is_named() {
        let schema = Schema::parse(
            r##"{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{
            "a":{"type":"object","properties":{"type":{"const":"a"},"n":{"type":["integer","null"],"minimum":0}},
                 "required":["type","n"],"additionalProperties":false},
            "b":{"type":"object","properties":{"type":{"const":"b"},"list":{"type":"array","items":{"enum":["x"]}}},
                 "required":["type"],"additionalProperties":false}}}"##,
        );
        for fine in [
            json!({"type":"a","n":1}),
            json!({"type":"a","n":null}),
            json!({"type":"b","list":["x"]}),
        ] {
            assert_eq!(schema.check(&fine), Ok(()));
        }
        for (bad, word) in [
            (json!({"type":"a"}), "n is missing"),
            (json!({"type":"a","n":-1}), "below"),
            (json!({"type":"a","n":"1"}), "not of type"),
            (json!({"type":"a","n":1,"m":1}), "m is not known"),
            (json!({"type":"b","list":["y"]}), "none of"),
            (json!({"type":"c"}), "exactly one"),
            (json!(7), "not of type"),
        ] {
            let why = schema.check(&bad).expect_err("does not fit");
            assert!(why.contains(word), "{bad}: {why}");
        }
    }
}
