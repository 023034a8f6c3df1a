//! Refreshes against an issuer that takes each refresh token once.

use super::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// An issuer whose tokens are `a1` and `r1`, then `a2` and `r2`, and so on.
struct OneUse {
    address: String,
    /// The refresh tokens that were given back, in order.
    seen: Arc<Mutex<Vec<String>>>,
}

impl OneUse {
    /// Takes `pause` for each answer; `refuses` everything.
    fn start(pause: Duration, refuses: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("its address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, pause, refuses, &log);
            }
        });
        Self { address, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("whole").clone()
    }
}

fn serve(mut stream: std::net::TcpStream, pause: Duration, refuses: bool, log: &Mutex<Vec<String>>) {
    let mut request = String::new();
    let mut part = [0; 4096];
    while !request.contains("grant_type") || !request.contains("scope=") {
        let count = stream.read(&mut part).expect("a request");
        request.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    assert!(request.starts_with("POST /oauth/token "), "{request}");
    let token = request
        .split("refresh_token=")
        .nth(1)
        .and_then(|rest| rest.split('&').next());
    let token = token.expect("a refresh token").to_owned();
    let mut log = log.lock().expect("whole");
    let used = log.contains(&token);
    log.push(token);
    let next = log.len() + 1;
    drop(log);
    std::thread::sleep(pause);
    let (status, body) = if used || refuses {
        (
            "400 Bad Request",
            json!({"error": {"code": "refresh_token_reused", "message": "used"}}),
        )
    } else {
        let tokens = json!({"access_token": format!("a{next}"), "refresh_token": format!("r{next}"), "expires_in": 3600});
        ("200 OK", tokens)
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).expect("sent");
}

fn account(dir: &std::path::Path, issuer: &str) -> Account {
    Account::new(AuthFile::new(dir), issuer)
}

/// A login whose access token lasts so long.
fn logged_in(dir: &std::path::Path, lasts_ms: u64) {
    let login = Login {
        access: "a1".into(),
        refresh: "r1".into(),
        expires_ms: now_ms() + lasts_ms,
        account: Some("acc".into()),
    };
    let mut locked = AuthFile::new(dir).lock(LOCK_WAIT, &|| false).expect("free");
    locked.store(&login).expect("stored");
}

fn stored(dir: &std::path::Path) -> Value {
    let text = std::fs::read(dir.join("auth.json")).expect("the file");
    let all: Value = serde_json::from_slice(&text).expect("JSON");
    all["openai-codex"].clone()
}

fn bearer(token: &Token) -> &str {
    token.bearer.expose_secret()
}

#[tokio::test]
async fn a_token_is_used_until_five_minutes_before_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let issuer = OneUse::start(Duration::ZERO, false);
    let account = account(dir.path(), &issuer.address);
    assert!(matches!(account.token().await, Err(ProviderError::Login(_))));
    logged_in(dir.path(), EARLY_MS + 60_000);
    let token = account.token().await.expect("fresh");
    assert_eq!((bearer(&token), token.account.as_deref()), ("a1", Some("acc")));
    assert!(issuer.seen().is_empty());
    logged_in(dir.path(), EARLY_MS - 1_000);
    assert_eq!(bearer(&account.token().await.expect("refreshed")), "a2");
    assert_eq!(
        (&stored(dir.path())["access"], &stored(dir.path())["refresh"]),
        (&json!("a2"), &json!("r2"))
    );
    assert_eq!(bearer(&account.token().await.expect("fresh again")), "a2");
    assert_eq!(issuer.seen(), ["r1"]);
}

#[test]
fn many_processes_at_once_use_a_refresh_token_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let issuer = OneUse::start(Duration::from_millis(50), false);
    logged_in(dir.path(), 0);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let account = account(dir.path(), &issuer.address);
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async { bearer(&account.token().await.expect("a token")).to_owned() })
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("no panic"), "a2");
    }
    assert_eq!(issuer.seen(), ["r1"]);
}

#[tokio::test]
async fn after_a_401_another_login_is_looked_for_before_a_refresh() {
    let dir = tempfile::tempdir().expect("a directory");
    let issuer = OneUse::start(Duration::ZERO, false);
    let account = account(dir.path(), &issuer.address);
    logged_in(dir.path(), 3_600_000);
    let old = Token {
        bearer: "an older one".into(),
        account: None,
        fedramp: false,
    };
    let other = account
        .refreshed_after_401(&old)
        .await
        .expect("the one of the file");
    assert_eq!(bearer(&other), "a1");
    assert!(issuer.seen().is_empty());
    let fresh = account.refreshed_after_401(&other).await.expect("a new one");
    assert_eq!(bearer(&fresh), "a2");
    assert_eq!(issuer.seen(), ["r1"]);
}

#[tokio::test]
async fn a_refusal_asks_for_a_new_login_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let issuer = OneUse::start(Duration::ZERO, true);
    logged_in(dir.path(), 0);
    let before = stored(dir.path());
    let error = account(dir.path(), &issuer.address)
        .token()
        .await
        .err()
        .expect("refused");
    assert!(
        matches!(&error, ProviderError::Login(why) if why.contains("used")),
        "{error}"
    );
    let gone = account(dir.path(), "http://127.0.0.1:1")
        .token()
        .await
        .err()
        .expect("not there");
    assert!(matches!(gone, ProviderError::Connect { .. }), "{gone}");
    assert_eq!(stored(dir.path()), before);
}

#[test]
fn a_refresh_under_way_is_stored_though_nobody_waits_for_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let issuer = OneUse::start(Duration::from_millis(1_500), false);
    logged_in(dir.path(), 0);
    let account = account(dir.path(), &issuer.address);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let waited = tokio::time::timeout(Duration::from_millis(150), account.token()).await;
        assert!(waited.is_err(), "the issuer was too quick");
    });
    drop(runtime);
    assert_eq!(issuer.seen(), ["r1"]);
    assert_eq!(stored(dir.path())["refresh"], "r2");
}
