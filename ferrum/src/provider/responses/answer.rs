//! One answer, put together event by event. Pure.
//!
//! The `done` event of an item holds the whole of it and is what counts. Deltas are shown as they
//! come, and stand in for an item that never got its `done`.

use super::fault;
use crate::agent::message::{Carry, ContentBlock, Message, Role, Usage, UsageSource};
use crate::provider::call::Raw;
use crate::provider::error::from_object;
use crate::provider::exchange::{Assembly, Show, Step};
use crate::provider::lenient::{self, Number, Text, whole};
use crate::provider::{ARGUMENTS_BYTES_MAX, CALLS_MAX, Completion, Event, Finish, ProviderError, grow};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Items of one answer, tool calls and all.
const ITEMS_MAX: usize = 1_000;

/// The answer so far.
pub(super) struct Answer {
    /// Goes with reasoning, which no other model may get back.
    model: String,
    items: Vec<Item>,
    usage: Option<Usage>,
    finish: Option<Finish>,
}

struct Item {
    index: Option<u64>,
    id: String,
    body: Body,
    /// The whole item was seen.
    done: bool,
}

enum Body {
    Text(String),
    Reasoning { text: String, item: Option<Value> },
    Call(Raw),
}

/// Which body a delta belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    Call,
}

/// Any event, or a whole response.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Data {
    r#type: Text,
    output_index: Number,
    item_id: Text,
    item: Option<Value>,
    delta: Option<Text>,
    arguments: Option<Text>,
    response: Option<Value>,
    error: Option<Value>,
    /// Of a whole response, or of an `error` event.
    object: Text,
}

impl Assembly for Answer {
    fn take(&mut self, data: &[u8], show: Show<'_>) -> Result<Step, ProviderError> {
        if matches!(data.trim_ascii(), b"" | b"[DONE]") {
            return Ok(Step::Idle);
        }
        let event: Data = lenient::parse(data, "event")?;
        let more = event.delta.as_ref().map_or("", |delta| delta.0.as_str());
        match event.r#type.0.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => self.text(&event, more, show)?,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.reasoning(&event, more, show)?;
            }
            "response.reasoning_summary_part.added" => self.paragraph(&event, show)?,
            "response.function_call_arguments.delta" => self.arguments(&event, more, false)?,
            "response.function_call_arguments.done" => {
                let all = event.arguments.as_ref().map_or("", |text| text.0.as_str());
                self.arguments(&event, all, true)?;
            }
            "response.output_item.added" => self.item(&event, false, show)?,
            "response.output_item.done" => self.item(&event, true, show)?,
            "response.completed" | "response.done" | "response.incomplete" | "response.failed" => {
                let response = event.response.unwrap_or(Value::Null);
                return self.end(&event.r#type.0, &response, show);
            }
            "error" => {
                let error = event.error.filter(Value::is_object);
                return Err(fault::of(
                    &error.map_or_else(|| lenient::parse(data, "event"), Ok)?,
                ));
            }
            "" => return self.untyped(data, event, show),
            // The backend adds events of its own.
            "codex.rate_limits" | "response.metadata" | "keepalive" => return Ok(Step::Idle),
            _ => {}
        }
        Ok(Step::More)
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(self) -> Result<Completion, ProviderError> {
        let finish = self
            .finish
            .ok_or(ProviderError::Incomplete("closed before response.completed"))?;
        let mut used = BTreeSet::new();
        let items = self.items.into_iter();
        let content = items.filter_map(|item| finished(item, &self.model, &mut used));
        let message = Message {
            role: Role::Assistant,
            content: content.collect(),
            usage: self.usage,
        };
        Ok(Completion { message, finish })
    }
}

impl Answer {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            items: Vec::new(),
            usage: None,
            finish: None,
        }
    }

    /// A whole response that was not streamed, or an error object.
    fn untyped(&mut self, data: &[u8], event: Data, show: Show<'_>) -> Result<Step, ProviderError> {
        if let Some(error) = event.error.filter(|error| !error.is_null()) {
            return Err(match error.is_object() {
                true => fault::of(&error),
                false => from_object(&error),
            });
        }
        if event.object.0 == "response" {
            let response: Value = lenient::parse(data, "response")?;
            return self.end("", &response, show);
        }
        Ok(Step::More)
    }

    /// The item that an event is about: by its id, by its index, or the last open one of its kind.
    /// A server may leave out the start of an item.
    fn at(&mut self, event: &Data, id: &str, kind: Kind) -> Result<&mut Item, ProviderError> {
        let index = event.output_index.0;
        let fits = |item: &Item| kind_of(&item.body) == kind;
        let named = |item: &Item| {
            (!id.is_empty() && item.id == id)
                || (index.is_some() && item.index == index)
                || (index.is_none() && (id.is_empty() || item.id.is_empty()) && !item.done)
        };
        let found = self.items.iter().rposition(|item| fits(item) && named(item));
        let at = match found {
            Some(at) => at,
            None => self.open(index, id, kind)?,
        };
        Ok(&mut self.items[at])
    }

    fn open(&mut self, index: Option<u64>, id: &str, kind: Kind) -> Result<usize, ProviderError> {
        let calls = || {
            self.items
                .iter()
                .filter(|item| matches!(item.body, Body::Call(_)))
        };
        if self.items.len() >= ITEMS_MAX || (kind == Kind::Call && calls().count() >= CALLS_MAX) {
            let what = format!("more than {CALLS_MAX} tool calls or {ITEMS_MAX} items");
            return Err(ProviderError::TooLarge(what));
        }
        self.items.push(Item {
            index,
            id: id.to_owned(),
            body: match kind {
                Kind::Text => Body::Text(String::new()),
                Kind::Reasoning => Body::Reasoning {
                    text: String::new(),
                    item: None,
                },
                Kind::Call => Body::Call(Raw::default()),
            },
            done: false,
        });
        Ok(self.items.len() - 1)
    }

    fn text(&mut self, event: &Data, more: &str, show: Show<'_>) -> Result<(), ProviderError> {
        if let Body::Text(text) = &mut self.at(event, &event.item_id.0, Kind::Text)?.body {
            grow(text, more, "text")?;
            show(Event::Text(more));
        }
        Ok(())
    }

    fn reasoning(&mut self, event: &Data, more: &str, show: Show<'_>) -> Result<(), ProviderError> {
        if let Body::Reasoning { text, .. } = &mut self.at(event, &event.item_id.0, Kind::Reasoning)?.body {
            grow(text, more, "reasoning")?;
            show(Event::Thinking(more));
        }
        Ok(())
    }

    /// Parts of a summary are paragraphs.
    fn paragraph(&mut self, event: &Data, show: Show<'_>) -> Result<(), ProviderError> {
        let item = self.at(event, &event.item_id.0, Kind::Reasoning)?;
        match &item.body {
            Body::Reasoning { text, .. } if !text.is_empty() => self.reasoning(event, "\n\n", show),
            _ => Ok(()),
        }
    }

    fn arguments(&mut self, event: &Data, text: &str, all: bool) -> Result<(), ProviderError> {
        if let Body::Call(raw) = &mut self.at(event, &event.item_id.0, Kind::Call)?.body {
            if all {
                raw.arguments.clear();
            }
            if raw.arguments.len() + text.len() > ARGUMENTS_BYTES_MAX {
                return Err(ProviderError::TooLarge("tool arguments above 2 MiB".to_owned()));
            }
            raw.arguments.push_str(text);
        }
        Ok(())
    }

    fn item(&mut self, event: &Data, done: bool, show: Show<'_>) -> Result<(), ProviderError> {
        let whole = event.item.as_ref().unwrap_or(&Value::Null);
        let id = whole["id"].as_str().unwrap_or_default();
        let kind = match whole["type"].as_str().unwrap_or_default() {
            "message" => Kind::Text,
            "reasoning" => Kind::Reasoning,
            "function_call" => Kind::Call,
            _ => return Ok(()),
        };
        let at = if done {
            self.at(event, id, kind)?
        } else {
            let at = self.open(event.output_index.0, id, kind)?;
            &mut self.items[at]
        };
        at.done |= done;
        id.clone_into(&mut at.id);
        match &mut at.body {
            Body::Text(text) => message(text, whole, show),
            Body::Reasoning { text, item } => {
                if done {
                    reasoning(text, item, whole);
                }
                Ok(())
            }
            Body::Call(raw) => {
                function(raw, whole);
                Ok(())
            }
        }
    }

    fn end(&mut self, kind: &str, response: &Value, show: Show<'_>) -> Result<Step, ProviderError> {
        if let Some(usage) = response.get("usage").and_then(usage) {
            self.usage = Some(usage);
        }
        let status = response["status"].as_str().unwrap_or_default();
        if kind == "response.failed" || status == "failed" {
            return Err(fault::of(&response["error"]));
        }
        if status == "cancelled" {
            return Err(ProviderError::Reported(
                "the provider cancelled the response".to_owned(),
            ));
        }
        // The end repeats all items; where they were not sent before, it is the only place.
        if self.items.is_empty() {
            for item in response["output"].as_array().into_iter().flatten() {
                let event = Data {
                    item: Some(item.clone()),
                    ..Data::default()
                };
                self.item(&event, true, show)?;
            }
        }
        self.finish = Some(match (kind, status) {
            ("response.incomplete", _) | (_, "incomplete") => incomplete(response)?,
            _ => Finish::Done,
        });
        Ok(Step::End)
    }
}

fn kind_of(body: &Body) -> Kind {
    match body {
        Body::Text(_) => Kind::Text,
        Body::Reasoning { .. } => Kind::Reasoning,
        Body::Call(_) => Kind::Call,
    }
}

/// What was shown stays; what the whole text has beyond it is shown now.
fn message(text: &mut String, whole: &Value, show: Show<'_>) -> Result<(), ProviderError> {
    let parts = whole["content"].as_array().into_iter().flatten();
    let texts = parts.filter_map(|part| part["text"].as_str().or(part["refusal"].as_str()));
    let all: String = texts.collect();
    let Some(rest) = all.strip_prefix(text.as_str()) else {
        return Ok(());
    };
    if !rest.is_empty() {
        grow(text, rest, "text")?;
        show(Event::Text(rest));
    }
    Ok(())
}

/// The item itself is kept only where the provider can read it again: nothing is stored there.
fn reasoning(text: &mut String, kept: &mut Option<Value>, whole: &Value) {
    let texts = |key: &str| -> Vec<String> {
        let parts = whole[key].as_array().into_iter().flatten();
        parts
            .filter_map(|part| part["text"].as_str().map(str::to_owned))
            .collect()
    };
    if text.is_empty() {
        let summary = texts("summary");
        *text = if summary.is_empty() {
            texts("content")
        } else {
            summary
        }
        .join("\n\n");
    }
    if whole["encrypted_content"].is_string() {
        *kept = Some(whole.clone());
    }
}

fn function(raw: &mut Raw, whole: &Value) {
    let word = |key: &str| whole[key].as_str().filter(|text| !text.is_empty());
    if let Some(id) = word("call_id") {
        id.clone_into(&mut raw.id);
    }
    if let Some(name) = word("name") {
        name.clone_into(&mut raw.name);
    }
    match &whole["arguments"] {
        Value::String(text) if !text.is_empty() => raw.arguments.clone_from(text),
        Value::Object(fields) => raw.arguments = Value::Object(fields.clone()).to_string(),
        _ => {}
    }
}

fn incomplete(response: &Value) -> Result<Finish, ProviderError> {
    match response["incomplete_details"]["reason"].as_str() {
        Some("max_output_tokens") => Ok(Finish::Length),
        Some("content_filter") => Ok(Finish::Filtered),
        other => Err(ProviderError::Reported(format!(
            "the response is incomplete: {}",
            crate::provider::error::one_line(other.unwrap_or("no reason given"))
        ))),
    }
}

fn usage(value: &Value) -> Option<Usage> {
    let number = |path: &[&str]| {
        let found = path.iter().try_fold(value, |at, key| at.get(*key));
        found.and_then(whole)
    };
    let (input_tokens, output_tokens) = (number(&["input_tokens"]), number(&["output_tokens"]));
    input_tokens.or(output_tokens)?;
    let sum = input_tokens
        .unwrap_or(0)
        .saturating_add(output_tokens.unwrap_or(0));
    Some(Usage {
        input_tokens,
        output_tokens,
        total_tokens: number(&["total_tokens"]).or(Some(sum)),
        cache_read_tokens: number(&["input_tokens_details", "cached_tokens"]).unwrap_or(0),
        cache_write_tokens: 0,
        source: UsageSource::Provider,
    })
}

fn finished(item: Item, model: &str, used: &mut BTreeSet<String>) -> Option<ContentBlock> {
    match item.body {
        Body::Text(text) => (!text.is_empty()).then_some(ContentBlock::Text { text }),
        Body::Reasoning { text, item: None } => {
            (!text.is_empty()).then_some(ContentBlock::Thinking { text, carry: None })
        }
        Body::Reasoning {
            text,
            item: Some(item),
        } => Some(ContentBlock::Thinking {
            text,
            carry: Some(Carry::Responses {
                model: model.to_owned(),
                item,
            }),
        }),
        Body::Call(mut raw) => {
            // The backend refuses other ids for calls.
            if item.id.starts_with("fc_") {
                raw.extra_content = Some(json!({"responses": {"id": item.id, "model": model}}));
            }
            Some(raw.into_block(used))
        }
    }
}
