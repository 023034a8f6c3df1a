//! The project's own speed figures: medians of several runs, each beside the floor program.
//! Nothing is asserted here: timings belong to a machine.
//!
//! `cargo run --release -p ferrum-tests --bin bench`

#![expect(clippy::print_stdout, reason = "a table for a person")]

use ferrum_tests::place;
use ferrum_tests::provider::{Answer, Provider, calls, says, stream_head};
use ferrum_tests::run::Run;
use ferrum_tests::scene::Scene;
use ferrum_tests::who::everyone;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const RUNS: usize = 15;
const ROUNDS: usize = 20;
const EVENTS: usize = 20_000;
const HISTORY_BYTES: usize = 350_000;

fn main() {
    let scene = Scene::new(&everyone()[0]);
    println!("{:<34}{:>12}{:>12}", "", "ferrum", "floor");
    version(&scene);
    start_and_hello(&scene);
    let shell = |round: usize| ("bash", json!({ "command": format!("true {round}") }));
    let read = |round: usize| ("read", json!({ "path": "README.md", "limit": round + 1 }));
    let edit = |round: usize| {
        let (old, new) = if round.is_multiple_of(2) {
            ("first", "again")
        } else {
            ("again", "first")
        };
        (
            "edit",
            json!({ "path": "README.md", "edits": [{ "old_text": old, "new_text": new }] }),
        )
    };
    rounds(&scene, "shell round", &shell);
    rounds(&scene, "read round", &read);
    rounds(&scene, "edit round", &edit);
    stream(&scene);
    growth(&scene, &read);
    memory(&scene);
    first_request(&scene);
}

fn line(name: &str, ferrum: &str, floor: &str) {
    println!("{name:<34}{ferrum:>12}{floor:>12}");
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Runs it [`RUNS`] times; the median of the wall time from start to end.
fn wall(run: &Run) -> Duration {
    median(
        (0..RUNS)
            .map(|_| {
                let started = Instant::now();
                let output = run.command().output().expect("the program starts");
                let time = started.elapsed();
                assert!(
                    output.status.success(),
                    "{}",
                    String::from_utf8_lossy(&output.stderr)
                );
                time
            })
            .collect(),
    )
}

fn ferrum(scene: &Scene, provider: &Provider) -> Run {
    scene.write(&scene.config_dir().join("config.toml"), provider.config());
    scene.ferrum(["--shell", "auto", "-p", "hello"])
}

fn floor(scene: &Scene, provider: &Provider) -> Run {
    scene
        .run(place::programs().join("floor"))
        .args([provider.base_url().as_str(), "hello"])
}

fn version(scene: &Scene) {
    line("--version", &milliseconds(wall(&scene.ferrum(["--version"]))), "");
}

fn start_and_hello(scene: &Scene) {
    let provider = Provider::start(vec![says("hello")]);
    let mut starts = [Vec::new(), Vec::new()];
    let mut walls = [Vec::new(), Vec::new()];
    let runs = [ferrum(scene, &provider), floor(scene, &provider)];
    for _ in 0..RUNS {
        for (which, run) in runs.iter().enumerate() {
            let seen = provider.requests().len();
            let started = Instant::now();
            let output = run.command().output().expect("the program starts");
            walls[which].push(started.elapsed());
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            starts[which].push(provider.requests()[seen].at.duration_since(started));
        }
    }
    let [ferrum_start, floor_start] = starts.map(median);
    let [ferrum_wall, floor_wall] = walls.map(median);
    line(
        "start to first request",
        &milliseconds(ferrum_start),
        &milliseconds(floor_start),
    );
    line(
        "hello, start to end",
        &milliseconds(ferrum_wall),
        &milliseconds(floor_wall),
    );
}

/// One round = (time with [`ROUNDS`] tool calls − time with none) / [`ROUNDS`].
fn rounds(scene: &Scene, name: &str, call: &dyn Fn(usize) -> (&'static str, Value)) {
    let script = || {
        let mut script: Vec<Answer> = (0..ROUNDS).map(|round| calls(&[call(round)])).collect();
        script.push(says("end"));
        script
    };
    let time = |program: &dyn Fn(&Provider) -> Run| {
        let mut long = Vec::new();
        let mut short = Vec::new();
        for _ in 0..RUNS.div_ceil(3) {
            let provider = Provider::start(script());
            long.push(once(&program(&provider)));
            let provider = Provider::start(vec![says("end")]);
            short.push(once(&program(&provider)));
        }
        (median(long), median(short))
    };
    let (long, short) = time(&|provider| ferrum(scene, provider));
    let (floor_long, floor_short) = time(&|provider| floor(scene, provider));
    let rounds = u32::try_from(ROUNDS).unwrap_or(1);
    let one = |long: Duration, short: Duration| milliseconds(long.saturating_sub(short) / rounds);
    line(name, &one(long, short), &one(floor_long, floor_short));
    line(
        &format!("  {ROUNDS} of them, start to end"),
        &milliseconds(long),
        &milliseconds(floor_long),
    );
}

fn once(run: &Run) -> Duration {
    let started = Instant::now();
    let output = run.command().output().expect("the program starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    started.elapsed()
}

/// From the first byte of an answer of [`EVENTS`] events to the end of the program.
fn stream(scene: &Scene) {
    let mut bytes = stream_head();
    for event in 0..EVENTS {
        let delta = json!({ "id": "c", "object": "chat.completion.chunk", "model": "m",
            "choices": [{ "index": 0, "delta": { "content": format!("word{event} ") }, "finish_reason": null }] });
        bytes.extend_from_slice(format!("data: {delta}\n\n").as_bytes());
    }
    bytes.extend_from_slice(
        b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    );
    let provider = Provider::start(vec![Answer::Bytes(bytes)]);
    let time = |run: &Run| {
        let times = (0..RUNS).map(|_| {
            let seen = provider.requests().len();
            once(run);
            provider.requests()[seen].at.elapsed()
        });
        milliseconds(median(times.collect()))
    };
    let (ours, least) = (time(&ferrum(scene, &provider)), time(&floor(scene, &provider)));
    line(&format!("{EVENTS} events, first byte to end"), &ours, &least);
}

/// What a round costs more in a session that holds [`HISTORY_BYTES`] already.
fn growth(scene: &Scene, call: &dyn Fn(usize) -> (&'static str, Value)) {
    let session = scene.data_dir().join("sessions/long.jsonl");
    let record = |at: usize| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        let message =
            json!({ "role": role, "content": [{ "type": "text", "text": "history ".repeat(100) }] });
        json!({ "type": "message", "id": at.to_string(), "timestamp_ms": 1, "message": message }).to_string()
    };
    let header = json!({ "type": "header", "version": 1, "id": "h", "timestamp_ms": 1, "mode": "print", "cwd": scene.root() });
    let mut history = format!("{header}\n");
    let mut at = 0;
    while history.len() < HISTORY_BYTES {
        history.push_str(&record(at));
        history.push('\n');
        at += 1;
    }
    let time = |text: &str, rounds: usize| {
        let times = (0..RUNS.div_ceil(3)).map(|_| {
            let mut script: Vec<Answer> = (0..rounds).map(|round| calls(&[call(round)])).collect();
            script.push(says("end"));
            let provider = Provider::start(script);
            scene.write(&session, text);
            once(&ferrum(scene, &provider).args(["--session", "long"]))
        });
        median(times.collect())
    };
    let rounds = u32::try_from(ROUNDS).unwrap_or(1);
    let one = |text: &str| time(text, ROUNDS).saturating_sub(time(text, 0)) / rounds;
    let more = one(&history).saturating_sub(one(&format!("{header}\n")));
    line("read round, more at 350 KB of history", &milliseconds(more), "");
}

/// Proportional set size of the whole tree while it waits for an answer.
fn memory(scene: &Scene) {
    let size = |program: &dyn Fn(&Provider) -> Run| {
        let provider = Provider::start(vec![Answer::Stall(stream_head())]);
        let mut child = program(&provider).command().spawn().expect("the program starts");
        while provider.requests().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(300));
        let mut tree = vec![child.id()];
        let mut next = 0;
        while let Some(pid) = tree.get(next).copied() {
            tree.extend(ferrum_tests::processes::children(pid));
            next += 1;
        }
        let kilobytes: Option<u64> = tree.iter().map(|pid| pss(*pid)).sum();
        let _ = child.kill();
        let _ = child.wait();
        // A process that gave up being looked into shows its size to root alone.
        kilobytes.map_or("as root only".to_owned(), |sum| {
            format!("{:.1} MB", sum as f64 / 1024.0)
        })
    };
    let ours = size(&|provider| ferrum(scene, provider));
    let least = size(&|provider| floor(scene, provider));
    line("memory of the process tree (PSS)", &ours, &least);
}

fn pss(pid: u32) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    rollup
        .lines()
        .find(|line| line.starts_with("Pss:"))?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Its size, and the system calls of the front before its first connection where strace is there.
fn first_request(scene: &Scene) {
    let provider = Provider::start(vec![says("hello")]);
    let run = ferrum(scene, &provider);
    once(&run);
    let bytes = provider.requests()[0].body.to_string().len();
    once(&floor(scene, &provider));
    let least = provider.requests()[1].body.to_string().len();
    line("first request", &format!("{bytes} B"), &format!("{least} B"));
    let trace = scene.base().join("trace");
    let count = |run: Run| -> String {
        let traced = run.under(["strace", "-o", &trace.display().to_string()]);
        if traced.command().output().is_err() {
            return "no strace".into();
        }
        let text = std::fs::read_to_string(&trace).unwrap_or_default();
        let before = text
            .lines()
            .position(|line| line.starts_with("connect(") && line.contains("AF_INET"));
        before.map_or("unknown".into(), |count| count.to_string())
    };
    let ours = count(ferrum(scene, &provider));
    let least = count(floor(scene, &provider));
    line("system calls before connecting", &ours, &least);
}
