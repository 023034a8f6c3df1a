//! An answer of the wire → JSON, or words.

use crate::mode::policy::show::values;
use ferrum_proto::reply::{Basis, Explanation};
use ferrum_proto::seal::Promise;
use serde_json::{Value, json};

pub(super) type Answer = (Explanation, Option<Box<Basis>>);

pub(super) fn object(id: Value, (answer, basis): &Answer) -> Value {
    let mut object = match answer {
        Explanation::Allowed => json!({
            "id": id,
            "verdict": "allow",
            "code": null,
            "line": 0,
            "column": 0,
            "message": "",
            "hint": "",
        }),
        Explanation::Refused(refusal) => json!({
            "id": id,
            "verdict": "deny",
            "code": refusal.code,
            "line": refusal.line,
            "column": refusal.column,
            "message": refusal.message,
            "hint": refusal.hint,
        }),
        Explanation::Unanswerable { message, hint } => error(id, message, hint),
    };
    if let Some(basis) = basis {
        object["rule"] = json!({ "name": basis.rule, "decided_by": decided(basis) });
        object["walls"] = basis.promises.iter().map(promise).collect();
        object["change"] = match basis.change.as_str() {
            "" => Value::Null,
            change => change.into(),
        };
    }
    object
}

fn decided(basis: &Basis) -> Vec<Value> {
    let rows = basis.origins.iter();
    rows.map(|decided| {
        let origins: Vec<Value> = decided.origins.iter().map(values::as_json).collect();
        json!({ "key": decided.key, "origins": origins })
    })
    .collect()
}

fn promise(promise: &Promise) -> Value {
    json!({ "promise": promise.name, "held_by": promise.held_by })
}

pub(super) fn error(id: Value, message: &str, hint: &str) -> Value {
    json!({ "id": id, "verdict": "error", "message": message, "hint": hint })
}

pub(super) fn words((answer, basis): &Answer) -> String {
    let (mut text, hint) = match answer {
        Explanation::Allowed => ("allow\n".to_owned(), ""),
        Explanation::Refused(refusal) => {
            let place = if refusal.line > 0 {
                format!(" at {}:{}", refusal.line, refusal.column)
            } else {
                String::new()
            };
            let text = format!("deny ({}){place}: {}\n", refusal.code, refusal.message);
            (text, refusal.hint.as_str())
        }
        Explanation::Unanswerable { message, hint } => (format!("no answer: {message}\n"), hint.as_str()),
    };
    let mut line = |label: &str, words: &str| {
        if !words.is_empty() {
            text.push_str(&format!("{label}: {words}\n"));
        }
    };
    line("hint", hint);
    if let Some(basis) = basis {
        line("rule", &rule(basis));
        line("walls", &walls(basis));
        if matches!(answer, Explanation::Refused(_)) {
            line(
                "change",
                if basis.change.is_empty() {
                    "none"
                } else {
                    &basis.change
                },
            );
        }
    }
    text
}

fn rule(basis: &Basis) -> String {
    let set = basis.origins.iter().map(|decided| {
        let origins: Vec<String> = decided.origins.iter().map(values::words).collect();
        format!("{}: {}", decided.key, origins.join(" and "))
    });
    let set: Vec<String> = set.collect();
    if set.is_empty() {
        format!("{} (built in)", basis.rule)
    } else {
        format!("{} ({})", basis.rule, set.join("; "))
    }
}

fn walls(basis: &Basis) -> String {
    if basis.promises.is_empty() {
        return "none".to_owned();
    }
    let rows = basis
        .promises
        .iter()
        .map(|promise| match promise.held_by.as_slice() {
            [] => format!("{}: nothing", promise.name),
            holders => format!("{}: {}", promise.name, holders.join(", ")),
        });
    rows.collect::<Vec<_>>().join("; ")
}
