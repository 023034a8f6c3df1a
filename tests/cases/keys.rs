//! A table whose keys are taken one by one: what is left at the end could not be expressed.

use toml::{Table, Value};

/// The keys of one part of a case.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    table: Table,
}

impl From<Table> for Keys {
    fn from(table: Table) -> Self {
        Self { table }
    }
}

impl Keys {
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.table.remove(key)
    }

    /// # Errors
    /// A sentence, when the value is of another kind.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        self.kind(key, "a string", |value| value.as_str().map(str::to_owned))
    }

    pub fn number(&mut self, key: &str) -> Result<Option<f64>, String> {
        #[expect(clippy::cast_precision_loss, reason = "limits of a case are small")]
        self.kind(key, "a number", |value| {
            value.as_float().or(value.as_integer().map(|n| n as f64))
        })
    }

    pub fn whole(&mut self, key: &str) -> Result<Option<i64>, String> {
        self.kind(key, "a whole number", Value::as_integer)
    }

    pub fn flag(&mut self, key: &str) -> Result<Option<bool>, String> {
        self.kind(key, "true or false", Value::as_bool)
    }

    /// A list of texts; a single text is a list of one.
    pub fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, String> {
        self.kind(key, "a list of strings", |value| match value {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(items) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect(),
            _ => None,
        })
    }

    pub fn tables(&mut self, key: &str) -> Result<Option<Vec<Keys>>, String> {
        self.kind(key, "a list of tables", |value| {
            value
                .as_array()?
                .iter()
                .map(|item| item.as_table().cloned().map(Keys::from))
                .collect()
        })
    }

    pub fn part(&mut self, key: &str) -> Result<Option<Keys>, String> {
        self.kind(key, "a table", |value| value.as_table().cloned().map(Keys::from))
    }

    /// All that is left, in order.
    pub fn rest(self) -> impl Iterator<Item = (String, Value)> {
        self.table.into_iter()
    }

    /// # Errors
    /// The names of keys that nobody took.
    pub fn nothing_left(&self, place: &str) -> Result<(), String> {
        let names: Vec<&str> = self.table.keys().map(String::as_str).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the runner cannot express {} of {place}",
            names.join(", ")
        ))
    }

    fn kind<T>(
        &mut self,
        key: &str,
        wanted: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => read(&value)
                .map(Some)
                .ok_or_else(|| format!("{key} must be {wanted}, not {value}")),
        }
    }
}
