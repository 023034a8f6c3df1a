//! What the records say. Shapes are documented in docs/AUDIT.md; arguments and lists are bounded
//! here, because a model decides how long they are.

use super::RECORD_BYTES_MAX;
use super::chain::hex;
use crate::agent::call::CallResult;
use crate::output::wire;
use crate::session::record::now_ms;
use ferrum_proto::reply::Survey;
use ferrum_proto::seal::{Granted, Ready};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Arguments of one call as JSON, in bytes; longer ones are cut, with their length and digest.
const ARGUMENTS_BYTES_MAX: usize = 4 << 10;
/// One text of a record, in bytes.
const TEXT_BYTES_MAX: usize = 512;
/// One text in a row of a list, in bytes.
const ROW_BYTES_MAX: usize = 200;
/// Rows of a list.
const ROWS_MAX: usize = 10;

/// The fields of a record.
pub type Fields = Map<String, Value>;

fn fields(kind: &str, value: Value) -> Fields {
    let mut fields = Map::new();
    fields.insert("t".into(), json!(now_ms()));
    fields.insert("type".into(), json!(kind));
    if let Value::Object(more) = value {
        fields.extend(more);
    }
    fields
}

/// Where and under what a process went to work: the first record of each process.
#[must_use]
pub fn open(facts: Value, granted: &Granted, ready: &Ready) -> Fields {
    let mut all = json!({
        "version": 1,
        "ferrum": env!("CARGO_PKG_VERSION"),
        "cwd": text(&granted.cwd.as_path().to_string_lossy()),
        "tier": granted.tier.name(),
        "tools": granted.tools,
        "isolation": wire::isolation(granted, ready),
        "writable_roots": list(wire::paths(&granted.writable_roots)),
        "project_files": list(wire::paths(&granted.project_files)),
    });
    if let (Value::Object(all), Value::Object(facts)) = (&mut all, facts) {
        all.extend(facts);
    }
    fields("open", all)
}

/// A request, before anything is done for it.
#[must_use]
pub fn call(turn: u64, id: &str, tool: &str, arguments: &Value) -> Fields {
    let json = arguments.to_string();
    let mut all = json!({ "turn": turn, "id": text(id), "tool": text(tool) });
    if json.len() <= ARGUMENTS_BYTES_MAX {
        all["arguments"] = arguments.clone();
    } else {
        all["arguments_cut"] = json!(json[..json.floor_char_boundary(ARGUMENTS_BYTES_MAX)]);
        all["arguments_bytes"] = json!(json.len());
        all["arguments_sha256"] = json!(hex(&Sha256::digest(json.as_bytes())));
    }
    fields("call", all)
}

/// Verdict and outcome of a request.
#[must_use]
pub fn result(turn: u64, id: &str, tool: &str, result: &CallResult) -> Fields {
    let refusal = result.outcome.refusal();
    let micros = |micros: u128| u64::try_from(micros).unwrap_or(u64::MAX);
    let command = result.command.as_ref().map(|command| {
        let all = wire::command(command);
        json!({ "end": all["end"], "status": all["status"], "signal": all["signal"],
            "containment": all["containment"], "residual_descendants": all["residual_descendants"] })
    });
    fields(
        "result",
        json!({
            "turn": turn,
            "id": text(id),
            "tool": text(tool),
            "verdict": result.outcome.verdict(),
            "rule": refusal.map(|refusal| text(&refusal.code)),
            "why": refusal.map(|refusal| text(&refusal.message)),
            "outcome": result.outcome.word(),
            "is_error": result.is_error,
            "isolation": result.isolation.map(|isolation| isolation.name()),
            "denials": list(wire::denials(&result.denials)),
            "command": command,
            "changed": list(wire::paths(&result.changed)),
            "judged_us": result.timings.admit_us,
            "ran_us": result.timings.run_us,
            "took_us": micros(result.took.as_micros()),
        }),
    )
}

/// A host came up in the place of one that was lost.
#[must_use]
pub fn host(why: &str) -> Fields {
    fields("host_restarted", json!({ "why": text(why) }))
}

/// What a turn left that programs or agents obey unasked.
#[must_use]
pub fn steering(survey: &Survey) -> Fields {
    let all = crate::session::record::steering(survey);
    let bounded = json!({ "files": list(all["files"].clone()), "more": all["more"],
        "findings": list(all["findings"].clone()) });
    fields("steering", bounded)
}

/// A turn is over.
#[must_use]
pub fn turn(turn: u64, outcome: &str, refused: u32) -> Fields {
    fields(
        "turn",
        json!({ "turn": turn, "outcome": text(outcome), "refused": refused }),
    )
}

fn text(text: &str) -> String {
    clip(text, TEXT_BYTES_MAX)
}

fn clip(text: &str, most: usize) -> String {
    match text.floor_char_boundary(most) {
        end if end < text.len() => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

/// Bounds a list, and the texts in its rows.
fn list(value: Value) -> Value {
    let Value::Array(rows) = value else {
        return value;
    };
    let more = rows.len().saturating_sub(ROWS_MAX);
    let mut out: Vec<Value> = rows.into_iter().take(ROWS_MAX).map(row).collect();
    if more > 0 {
        out.push(json!(format!("{more} more")));
    }
    Value::Array(out)
}

fn row(value: Value) -> Value {
    match value {
        Value::String(text) => json!(clip(&text, ROW_BYTES_MAX)),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, row(value)))
            .collect(),
        other => other,
    }
}

/// A record fits its line whatever a model says, where each byte takes six as JSON: five texts and
/// rows of four.
const _: () = assert!(6 * (5 * TEXT_BYTES_MAX + ROWS_MAX * 4 * ROW_BYTES_MAX) < RECORD_BYTES_MAX);
const _: () = assert!(6 * (ARGUMENTS_BYTES_MAX + 3 * TEXT_BYTES_MAX) < RECORD_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::call::{CallOutcome, CallResult};
    use ferrum_proto::reply::Denial;
    use ferrum_proto::terms::PathBytes;

    #[test]
    fn what_a_model_says_is_bounded_and_can_be_recognised() {
        let long = json!({ "content": "\u{1}".repeat(1 << 20) });
        let record = call(1, &"i".repeat(5_000), "write", &long);
        assert!(serde_json::to_vec(&record).unwrap().len() < RECORD_BYTES_MAX);
        assert_eq!(record["arguments_bytes"], long.to_string().len());
        assert_eq!(record["arguments_sha256"], hex(&Sha256::digest(long.to_string())));
        let short = json!({ "path": "x" });
        assert_eq!(call(1, "i", "read", &short)["arguments"], short);
    }

    #[test]
    fn a_result_is_bounded_too() {
        let mut done = CallResult::error(CallOutcome::Failed, "text".into());
        let denial = Denial {
            what: "x".repeat(900),
            wall: "w".into(),
            remedy: String::new(),
            certain: true,
        };
        done.denials = vec![denial; 100];
        done.changed = vec![PathBytes(vec![1; 900]); 100];
        let record = result(1, "i", "bash", &done);
        assert!(serde_json::to_vec(&record).unwrap().len() < RECORD_BYTES_MAX);
        assert_eq!(record["changed"].as_array().map(Vec::len), Some(ROWS_MAX + 1));
    }
}
