//! One answer, put together event by event. Pure.

use crate::agent::message::{Carry, ContentBlock, Message, Role, Usage, UsageSource};
use crate::provider::call::Raw;
use crate::provider::error::{from_object, message_of};
use crate::provider::exchange::{Assembly, Show, Step};
use crate::provider::lenient::{self, Many, Number, Text, whole};
use crate::provider::{ARGUMENTS_BYTES_MAX, CALLS_MAX, Completion, Event, Finish, ProviderError, grow};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Blocks of one answer, tool calls and all.
const BLOCKS_MAX: usize = 1_000;

/// The answer so far.
pub(super) struct Answer {
    /// Goes with thinking, which no other model may get back.
    model: String,
    blocks: Vec<(Option<u64>, Block)>,
    usage: Counts,
    finish: Option<Finish>,
    stopped: bool,
}

enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    /// Thinking that only the provider can read.
    Redacted(Value),
    Call {
        raw: Raw,
        whole: Value,
    },
    /// Of a kind that is not ours.
    Other,
}

/// Counts come in pieces; the last one of each counts.
#[derive(Default)]
struct Counts {
    input: Option<u64>,
    output: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
}

/// Any event, or a whole answer that was not streamed.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Data {
    r#type: Text,
    index: Number,
    message: Option<Whole>,
    content_block: Option<Value>,
    delta: Option<Delta>,
    usage: Option<Value>,
    error: Option<Value>,
    content: Many<Value>,
    stop_reason: Option<Text>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Whole {
    usage: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Delta {
    text: Option<Text>,
    thinking: Option<Text>,
    signature: Option<Text>,
    partial_json: Option<Text>,
    stop_reason: Option<Text>,
}

impl Assembly for Answer {
    fn take(&mut self, data: &[u8], show: Show<'_>) -> Result<Step, ProviderError> {
        match data.trim_ascii() {
            b"" => return Ok(Step::Idle),
            // Of the other format; some proxies send it here too.
            b"[DONE]" => return Ok(Step::End),
            _ => {}
        }
        let data: Data = lenient::parse(data, "event")?;
        if data.r#type.0 == "error" || data.error.as_ref().is_some_and(|error| !error.is_null()) {
            return Err(reported(data.error.unwrap_or(Value::Null)));
        }
        self.counts(data.usage.as_ref());
        match data.r#type.0.as_str() {
            "ping" => return Ok(Step::Idle),
            "message_start" => self.counts(data.message.and_then(|message| message.usage).as_ref()),
            "content_block_start" => {
                self.start(data.index.0, data.content_block.unwrap_or(Value::Null), show)?
            }
            "content_block_delta" => self.delta(data.index.0, data.delta.unwrap_or_default(), show)?,
            "message_delta" => self.reason(data.delta.and_then(|delta| delta.stop_reason))?,
            "message_stop" => {
                self.stopped = true;
                return Ok(Step::End);
            }
            "message" => {
                for block in data.content.0 {
                    self.start(None, block, show)?;
                }
                self.reason(data.stop_reason)?;
                self.stopped = true;
            }
            // Events are added to the format from time to time.
            _ => {}
        }
        Ok(Step::More)
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(self) -> Result<Completion, ProviderError> {
        let finish = match self.finish {
            Some(finish) => finish,
            None if self.stopped && !self.blocks.is_empty() => Finish::Done,
            None => {
                return Err(ProviderError::Incomplete(
                    "neither a stop reason nor message_stop",
                ));
            }
        };
        let mut used = BTreeSet::new();
        let blocks = self.blocks.into_iter();
        let content = blocks.filter_map(|(_, block)| finished(block, &self.model, &mut used));
        let message = Message {
            role: Role::Assistant,
            content: content.collect(),
            usage: self.usage.total(),
        };
        Ok(Completion { message, finish })
    }
}

impl Answer {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            blocks: Vec::new(),
            usage: Counts::default(),
            finish: None,
            stopped: false,
        }
    }

    fn start(&mut self, index: Option<u64>, block: Value, show: Show<'_>) -> Result<(), ProviderError> {
        let word = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str().unwrap_or_default() {
            "text" => {
                self.open(index, Block::Text(String::new()))?;
                self.text(index, &word("text"), show)
            }
            "thinking" => {
                let (text, signature) = (String::new(), word("signature"));
                self.open(index, Block::Thinking { text, signature })?;
                self.thinking(index, &word("thinking"), show)
            }
            "redacted_thinking" => self.open(index, Block::Redacted(block)),
            "tool_use" => {
                let raw = Raw {
                    id: word("id"),
                    name: word("name"),
                    ..Raw::default()
                };
                let whole = block.get("input").cloned().unwrap_or(Value::Null);
                self.open(index, Block::Call { raw, whole })
            }
            _ => self.open(index, Block::Other),
        }
    }

    fn open(&mut self, index: Option<u64>, block: Block) -> Result<(), ProviderError> {
        let calls = || {
            self.blocks
                .iter()
                .filter(|(_, block)| matches!(block, Block::Call { .. }))
        };
        if self.blocks.len() >= BLOCKS_MAX
            || (matches!(block, Block::Call { .. }) && calls().count() >= CALLS_MAX)
        {
            let what = format!("more than {CALLS_MAX} tool calls or {BLOCKS_MAX} blocks");
            return Err(ProviderError::TooLarge(what));
        }
        self.blocks.push((index, block));
        Ok(())
    }

    /// The block that a fragment continues: the last one of its index.
    fn at(&mut self, index: Option<u64>) -> Option<&mut Block> {
        let mut blocks = self.blocks.iter_mut().rev();
        let found = blocks.find(|(at, _)| index.is_none() || at.is_none() || *at == index);
        found.map(|(_, block)| block)
    }

    fn delta(&mut self, index: Option<u64>, delta: Delta, show: Show<'_>) -> Result<(), ProviderError> {
        if let Some(text) = delta.text {
            self.text(index, &text.0, show)?;
        }
        if let Some(text) = delta.thinking {
            self.thinking(index, &text.0, show)?;
        }
        if let (Some(more), Some(Block::Thinking { signature, .. })) = (delta.signature, self.at(index)) {
            grow(signature, &more.0, "signature")?;
        }
        if let (Some(more), Some(Block::Call { raw, .. })) = (delta.partial_json, self.at(index)) {
            if raw.arguments.len() + more.0.len() > ARGUMENTS_BYTES_MAX {
                return Err(ProviderError::TooLarge("tool arguments above 2 MiB".to_owned()));
            }
            raw.arguments.push_str(&more.0);
        }
        Ok(())
    }

    /// A server may leave out the start of a block.
    fn text(&mut self, index: Option<u64>, more: &str, show: Show<'_>) -> Result<(), ProviderError> {
        if !matches!(self.at(index), Some(Block::Text(_))) {
            self.open(index, Block::Text(String::new()))?;
        }
        if let (false, Some(Block::Text(text))) = (more.is_empty(), self.at(index)) {
            grow(text, more, "text")?;
            show(Event::Text(more));
        }
        Ok(())
    }

    fn thinking(&mut self, index: Option<u64>, more: &str, show: Show<'_>) -> Result<(), ProviderError> {
        if !matches!(self.at(index), Some(Block::Thinking { .. })) {
            let (text, signature) = (String::new(), String::new());
            self.open(index, Block::Thinking { text, signature })?;
        }
        if let (false, Some(Block::Thinking { text, .. })) = (more.is_empty(), self.at(index)) {
            grow(text, more, "reasoning")?;
            show(Event::Thinking(more));
        }
        Ok(())
    }

    fn reason(&mut self, reason: Option<Text>) -> Result<(), ProviderError> {
        self.finish = match reason.unwrap_or_default().0.as_str() {
            "" => self.finish,
            "max_tokens" => Some(Finish::Length),
            "refusal" => Some(Finish::Filtered),
            "model_context_window_exceeded" => {
                let why = "the provider stopped at the context limit".to_owned();
                return Err(ProviderError::Overflow(why));
            }
            // Whether there are calls is seen from the calls.
            _ => Some(Finish::Done),
        };
        Ok(())
    }

    fn counts(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let set = |place: &mut Option<u64>, key: &str| {
            *place = usage.get(key).and_then(whole).or(*place);
        };
        set(&mut self.usage.input, "input_tokens");
        set(&mut self.usage.output, "output_tokens");
        set(&mut self.usage.read, "cache_read_input_tokens");
        set(&mut self.usage.written, "cache_creation_input_tokens");
    }
}

impl Counts {
    /// The format counts what was cached apart; ours is the whole.
    fn total(&self) -> Option<Usage> {
        self.input.or(self.output)?;
        let (read, written) = (self.read.unwrap_or(0), self.written.unwrap_or(0));
        let input = self
            .input
            .map(|input| input.saturating_add(read).saturating_add(written));
        Some(Usage {
            input_tokens: input,
            output_tokens: self.output,
            total_tokens: Some(input.unwrap_or(0).saturating_add(self.output.unwrap_or(0))),
            cache_read_tokens: read,
            cache_write_tokens: written,
            source: UsageSource::Provider,
        })
    }
}

fn finished(block: Block, model: &str, used: &mut BTreeSet<String>) -> Option<ContentBlock> {
    let carry = |block: Value| {
        Some(Carry::Messages {
            model: model.to_owned(),
            block,
        })
    };
    match block {
        Block::Text(text) => (!text.is_empty()).then_some(ContentBlock::Text { text }),
        // Without a signature it is of no use to the provider.
        Block::Thinking { text, signature } if signature.is_empty() => {
            (!text.is_empty()).then_some(ContentBlock::Thinking { text, carry: None })
        }
        Block::Thinking { text, signature } => {
            let block = json!({"type": "thinking", "thinking": text, "signature": signature});
            let carry = carry(block);
            Some(ContentBlock::Thinking { text, carry })
        }
        Block::Redacted(block) => Some(ContentBlock::Thinking {
            text: String::new(),
            carry: carry(block),
        }),
        Block::Call { mut raw, whole } => {
            // Proxies send the whole input with the start, and no fragments.
            if raw.arguments.trim().is_empty() && !whole.is_null() {
                raw.arguments = whole.to_string();
            }
            Some(raw.into_block(used))
        }
        Block::Other => None,
    }
}

/// The kinds that pass by themselves are told apart: the answer may be asked for again.
fn reported(error: Value) -> ProviderError {
    match error["type"].as_str() {
        Some("overloaded_error" | "api_error" | "rate_limit_error" | "timeout_error") => {
            ProviderError::Passing {
                message: format!(
                    "{}: {}",
                    error["type"].as_str().unwrap_or_default(),
                    message_of(&error)
                ),
                wait: None,
            }
        }
        _ => from_object(&error),
    }
}
