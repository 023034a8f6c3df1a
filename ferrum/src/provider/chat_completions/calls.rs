//! Tool calls put together from their fragments.
//!
//! By the format a call is known by its `index`. Servers leave it out, send 0 for all, leave out
//! or repeat ids, and repeat names; [`Calls::slot`] is the one place that decides where a fragment
//! belongs.

use super::chunk::{CallDelta, FunctionDelta};
use crate::agent::message::ContentBlock;
use crate::provider::call::Raw;
use crate::provider::lenient::Number;
use crate::provider::{ARGUMENTS_BYTES_MAX, CALLS_MAX, ProviderError};
use serde_json::Value;
use std::collections::BTreeSet;

/// Bytes of a tool name that are kept.
const NAME_BYTES_MAX: usize = 256;

/// The calls of one answer so far.
#[derive(Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
}

#[derive(Default)]
struct Call {
    index: Option<u64>,
    raw: Raw,
    shape: Shape,
}

impl Calls {
    /// Takes one fragment.
    ///
    /// # Errors
    /// [`ProviderError::TooLarge`] above 128 calls or 2 MiB of arguments.
    pub(super) fn push(&mut self, delta: CallDelta) -> Result<(), ProviderError> {
        let function = delta.function.unwrap_or_default();
        let id = delta.id.unwrap_or_default().0;
        let name = function.name.unwrap_or_default().0;
        let arguments = match function.arguments {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(object) => object.to_string(),
        };
        let at = match self.slot(delta.index.0, &id, &name, &arguments) {
            Some(at) => at,
            None if self.calls.len() >= CALLS_MAX => {
                return Err(ProviderError::TooLarge(format!(
                    "more than {CALLS_MAX} tool calls"
                )));
            }
            None => {
                self.calls.push(Call {
                    index: delta.index.0,
                    ..Call::default()
                });
                self.calls.len() - 1
            }
        };
        self.calls[at].take(id, name, &arguments, delta.extra_content)
    }

    /// Takes the older form, which knows one call and no id.
    ///
    /// # Errors
    /// As [`Calls::push`].
    pub(super) fn push_function(&mut self, function: FunctionDelta) -> Result<(), ProviderError> {
        self.push(CallDelta {
            index: Number(Some(0)),
            function: Some(function),
            ..CallDelta::default()
        })
    }

    /// The call that a fragment continues; `None` when it begins a new one.
    fn slot(&self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> Option<usize> {
        let same_index = |call: &Call| index.is_none() || call.index.is_none() || call.index == index;
        let same_id = |call: &Call| id.is_empty() || call.raw.id.is_empty() || call.raw.id == id;
        // A nameless fragment with a new id for a call that is still open: some proxies make up an
        // id for every fragment.
        let nameless =
            |call: &Call| name.is_empty() && !call.shape.closed && index.is_some() && call.index == index;
        let at = self
            .calls
            .iter()
            .rposition(|call| (same_index(call) && same_id(call)) || nameless(call))?;
        // An unknown id on a known index is a new call, so only the last one can take a fragment
        // that carries neither.
        if index.is_none() && id.is_empty() && at + 1 != self.calls.len() {
            return None;
        }
        let call = &self.calls[at];
        // Whole arguments and a name once more: the server gives all its calls the same index or
        // id, or none at all.
        let again = !name.is_empty() && call.shape.closed && arguments.trim_start().starts_with('{');
        // Without an index and an id, only a name can tell that a new call begins.
        let renamed = index.is_none() && id.is_empty() && !name.is_empty() && name != call.raw.name;
        (!again && !renamed).then_some(at)
    }

    /// The finished blocks, with usable ids: non-empty and different within the message.
    pub(super) fn into_blocks(self) -> Vec<ContentBlock> {
        let mut used = BTreeSet::new();
        let calls = self.calls.into_iter();
        calls.map(|call| call.raw.into_block(&mut used)).collect()
    }
}

impl Call {
    fn take(
        &mut self,
        id: String,
        name: String,
        arguments: &str,
        extra: Option<Value>,
    ) -> Result<(), ProviderError> {
        let raw = &mut self.raw;
        if raw.id.is_empty() {
            raw.id = id;
        }
        if raw.name.is_empty() {
            raw.name = name;
        } else if name != raw.name && raw.arguments.is_empty() {
            // A name in fragments.
            raw.name.push_str(&name);
        }
        if raw.name.len() > NAME_BYTES_MAX {
            return Err(ProviderError::Malformed(
                "a tool name longer than 256 bytes".to_owned(),
            ));
        }
        if raw.arguments.len() + arguments.len() > ARGUMENTS_BYTES_MAX {
            return Err(ProviderError::TooLarge("tool arguments above 2 MiB".to_owned()));
        }
        self.shape.push(arguments);
        raw.arguments.push_str(arguments);
        if extra.is_some() {
            raw.extra_content = extra;
        }
        Ok(())
    }
}

/// Whether the JSON text so far is one whole object or array. Kept up as text comes in, so that
/// many small fragments stay cheap.
#[derive(Default)]
struct Shape {
    depth: usize,
    in_string: bool,
    escaped: bool,
    closed: bool,
}

impl Shape {
    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    self.closed = self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Fragments as JSON in, `id name input` lines out; made-up ids become `*`.
    fn check(fragments: &[&str], expected: &[&str]) {
        let mut calls = Calls::default();
        for fragment in fragments {
            calls.push(serde_json::from_str(fragment).unwrap()).unwrap();
        }
        let lines: Vec<String> = calls
            .into_blocks()
            .iter()
            .map(|block| match block {
                ContentBlock::ToolUse {
                    id,
                    name,
                    input,
                    invalid,
                    ..
                } => {
                    let id = if id.len() > 20 { "*" } else { id };
                    format!(
                        "{id} {name} {input}{}",
                        if invalid.is_some() { " invalid" } else { "" }
                    )
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn fragments_find_their_call() {
        // As the format says.
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":""}}"#,
                r#"{"index":1,"id":"b","function":{"name":"ls","arguments":"{}"}}"#,
                r#"{"index":0,"id":null,"type":null,"function":{"name":null,"arguments":"{\"path\":"}}"#,
                r#"{"index":0,"function":{"arguments":"\"x\"}"}}"#,
            ],
            &[r#"a read {"path":"x"}"#, "b ls {}"],
        );
        // No index; whole arguments at once.
        check(
            &[
                r#"{"id":"a","function":{"name":"read","arguments":"{\"path\":"}}"#,
                r#"{"function":{"arguments":"\"x\"}"}}"#,
                r#"{"id":"b","function":{"name":"ls","arguments":"{}"}}"#,
            ],
            &[r#"a read {"path":"x"}"#, "b ls {}"],
        );
        // Index 0 for all, different ids.
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":"{}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"read","arguments":"{\"path\":"}}"#,
                r#"{"index":0,"function":{"arguments":"\"y\"}"}}"#,
            ],
            &["a read {}", r#"b read {"path":"y"}"#],
        );
        // Name and id repeated in each fragment.
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":"{\"pa"}}"#,
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":"th\":1}"}}"#,
            ],
            &[r#"a read {"path":1}"#],
        );
        // Neither ids nor indexes.
        check(
            &[
                r#"{"function":{"name":"read","arguments":"{\"path\":\"a\"}"}}"#,
                r#"{"function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#,
                r#"{"function":{"name":"ls","arguments":null}}"#,
                r#"{"function":{"name":"find","arguments":null}}"#,
            ],
            &[
                r#"* read {"path":"a"}"#,
                r#"* read {"path":"b"}"#,
                "* ls {}",
                "* find {}",
            ],
        );
        // A made-up id in every fragment.
        check(
            &[
                r#"{"index":0,"id":"x1","function":{"name":"read","arguments":""}}"#,
                r#"{"index":0,"id":"x2","function":{"name":null,"arguments":"{\"path\":"}}"#,
                r#"{"index":0,"id":"x3","function":{"arguments":"\"x\"}"}}"#,
                r#"{"index":1,"id":"x4","function":{"name":"ls","arguments":"{}"}}"#,
            ],
            &[r#"x1 read {"path":"x"}"#, "x4 ls {}"],
        );
        // Indexes as text, and the id after the name.
        check(
            &[
                r#"{"index":"0","function":{"name":"read","arguments":"{\"path\":"}}"#,
                r#"{"index":"0","id":"a","function":{"arguments":"\"x\"}"}}"#,
            ],
            &[r#"a read {"path":"x"}"#],
        );
        // One id for two calls of different indexes.
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":"{\"path\":"}}"#,
                r#"{"index":1,"id":"a","function":{"name":"ls","arguments":"{}"}}"#,
                r#"{"index":0,"id":"a","function":{"arguments":"\"x\"}"}}"#,
            ],
            &[r#"a read {"path":"x"}"#, "* ls {}"],
        );
        // The same id and index for two whole calls.
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}"#,
                r#"{"index":0,"id":"a","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}"#,
            ],
            &[r#"a read {"path":"a"}"#, r#"* read {"path":"b"}"#],
        );
    }

    #[test]
    fn arguments_of_every_shape() {
        let one = |arguments: &str, expected: &str| {
            check(
                &[&format!(
                    r#"{{"id":"a","function":{{"name":"t","arguments":{arguments}}}}}"#
                )],
                &[expected],
            );
        };
        one(r#"{"path":"x"}"#, r#"a t {"path":"x"}"#);
        one("null", "a t {}");
        one(r#""""#, "a t {}");
        one(r#""null""#, "a t {}");
        one(r#""\"{\\\"path\\\":1}\"""#, r#"a t {"path":1}"#);
        one(r#""{\"path\":""#, "a t {} invalid");
        one(r#""[1]""#, "a t {} invalid");
        one(r#""{}{}""#, "a t {} invalid");
    }

    #[test]
    fn both_sides_of_the_limits() {
        let mut calls = Calls::default();
        let delta = |n: u64| CallDelta {
            index: Number(Some(n)),
            ..CallDelta::default()
        };
        for n in 0..CALLS_MAX as u64 {
            calls.push(delta(n)).unwrap();
        }
        assert!(calls.push(delta(1_000)).is_err());
        let arguments = |n: usize| CallDelta {
            index: Number(Some(0)),
            function: Some(FunctionDelta {
                name: None,
                arguments: Some(Value::String(" ".repeat(n))),
            }),
            ..CallDelta::default()
        };
        assert!(calls.push(arguments(ARGUMENTS_BYTES_MAX)).is_ok());
        assert!(calls.push(arguments(1)).is_err());
    }

    proptest! {
        #[test]
        fn any_cut_of_the_arguments_gives_the_same_call(cut in 0usize..40) {
            let text = r#"{"command":"echo \"{}\" } \\ { [","n":[1,{}]}"#;
            let cut = cut.min(text.len());
            let fragment = |text: &str, first: bool| CallDelta {
                index: Number(Some(0)),
                id: first.then(|| crate::provider::lenient::Text("a".into())),
                function: Some(FunctionDelta { name: None, arguments: Some(Value::String(text.into())) }),
                extra_content: None,
            };
            let mut calls = Calls::default();
            calls.push(fragment(&text[..cut], true)).unwrap();
            calls.push(fragment(&text[cut..], false)).unwrap();
            let blocks = calls.into_blocks();
            prop_assert_eq!(blocks.len(), 1);
            let whole = matches!(&blocks[0], ContentBlock::ToolUse { invalid: None, .. });
            prop_assert!(whole);
        }
    }
}
