//! The least that an agent can be: one HTTP client, one loop, `bash -c` without any wall. Figures
//! of `bench` stand beside this program's.
//!
//! `floor BASE_URL PROMPT`

use serde_json::{Value, json};
use std::process::Command;

#[expect(clippy::print_stdout, reason = "the answer")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(base), Some(prompt)) = (arguments.next(), arguments.next()) else {
        return Err("usage: floor BASE_URL PROMPT".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    println!("{}", runtime.block_on(turn(&base, &prompt))?);
    Ok(())
}

async fn turn(base: &str, prompt: &str) -> Result<String, Box<dyn std::error::Error>> {
    // The workspace's one copy of the client is built without a provider of its own.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
    let mut messages = vec![json!({ "role": "user", "content": prompt })];
    loop {
        let body = json!({ "model": "m", "stream": true, "messages": messages }).to_string();
        let request = client
            .post(format!("{base}/chat/completions"))
            .header("content-type", "application/json");
        let text = request.body(body).send().await?.text().await?;
        let mut answer = String::new();
        let mut calls: Vec<Value> = Vec::new();
        for event in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let Ok(event) = serde_json::from_str::<Value>(event) else {
                continue;
            };
            let delta = &event["choices"][0]["delta"];
            answer.push_str(delta["content"].as_str().unwrap_or_default());
            calls.extend(delta["tool_calls"].as_array().into_iter().flatten().cloned());
        }
        if calls.is_empty() {
            return Ok(answer);
        }
        messages.push(json!({ "role": "assistant", "content": answer, "tool_calls": calls }));
        for call in &calls {
            let result = run(&call["function"])?;
            messages.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": result }));
        }
    }
}

fn run(function: &Value) -> Result<String, Box<dyn std::error::Error>> {
    let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap_or("{}"))?;
    let text = |key: &str| arguments[key].as_str().unwrap_or_default();
    Ok(match function["name"].as_str() {
        Some("bash") => {
            let output = Command::new("/bin/bash").args(["-c", text("command")]).output()?;
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        Some("read") => std::fs::read_to_string(text("path"))?,
        Some("edit") => {
            let edit = &arguments["edits"][0];
            let word = |key: &str| edit[key].as_str().unwrap_or_default();
            let file = std::fs::read_to_string(text("path"))?;
            std::fs::write(text("path"), file.replacen(word("old_text"), word("new_text"), 1))?;
            "edited".into()
        }
        _ => "unknown tool".into(),
    })
}
