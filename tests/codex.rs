//! Sessions of a ChatGPT account whose token is refused: a backend and an issuer with the same wire.

use crate::login::{Issuer, answers, kept, scene, tokens};
use ferrum_tests::provider::{Answer, Provider, Request, status};
use ferrum_tests::run::Run;
use ferrum_tests::scene::Scene;
use serde_json::{Value, json};

/// Takes the tokens that the issuer gives, and no others.
fn answer(request: &Request) -> Answer {
    if request.head.contains("Bearer e30.") {
        return answers();
    }
    let body =
        json!({"error": {"message": "Provided authentication token is expired.", "code": "token_expired"}});
    status("401 Unauthorized", &body.to_string())
}

/// A login whose token is good for years, as far as its owner knows.
fn log_in(scene: &Scene, access: &str, refresh: &str) {
    let login = json!({"other": {"key": 1}, "openai-codex": {"type": "oauth", "access": access,
        "refresh": refresh, "expires": 4_000_000_000_000_u64, "accountId": "acc-1"}});
    scene.write(&scene.config_dir().join("auth.json"), login.to_string());
    for name in [".auth.json.lock", ".auth.json.new"] {
        scene.write(&scene.config_dir().join(name), "");
    }
}

fn configure(scene: &Scene, backend: &Provider) {
    let config = format!(
        "provider = \"openai-codex\"\nmodel = \"gpt-x\"\n[providers.openai-codex]\ntype = \"openai-codex\"\n\
         base_url = \"http://127.0.0.1:{}\"\n",
        backend.port
    );
    scene.write(&scene.config_dir().join("config.toml"), config);
}

fn hello(scene: &Scene, issuer: &Issuer) -> Run {
    scene
        .ferrum(["-p", "hello"])
        .env("FERRUM_CODEX_ISSUER", issuer.address.clone())
}

fn refreshes(issuer: &Issuer) -> usize {
    let seen = issuer.seen();
    seen.iter().filter(|(path, _)| path == "/oauth/token").count()
}

#[test]
fn processes_whose_token_is_refused_at_once_refresh_it_once() {
    let (scene, issuer) = (scene(), Issuer::start());
    let backend = Provider::choosing(|request| Some(answer(request)));
    configure(&scene, &backend);
    log_in(&scene, "refused-access-token", "refresh-0");
    let outputs: Vec<_> = std::thread::scope(|scope| {
        let asked = [(); 3].map(|()| scope.spawn(|| hello(&scene, &issuer).output()));
        let outputs = asked.into_iter().map(|asked| asked.join().expect("no panic"));
        outputs.collect()
    });
    for output in outputs {
        assert_eq!(output.status, Some(0), "{}", output.all());
        assert_eq!(output.out().trim(), "hello again");
    }
    assert_eq!(refreshes(&issuer), 1, "{:?}", issuer.seen());
    // The refresh token was good for this once only: what came for it is kept, beside the rest.
    let login = kept(&scene);
    assert_eq!(login["openai-codex"]["refresh"], "refresh-1");
    assert_eq!(login["other"], json!({"key": 1}));
}

#[test]
fn a_login_that_somebody_else_refreshed_is_read_again_before_anything_is_asked() {
    let (scene, issuer) = (scene(), Issuer::start());
    let file = scene.config_dir().join("auth.json");
    let backend = Provider::choosing(move |request| {
        let given = tokens();
        let mut login: Value = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
        login["openai-codex"]["access"] = given["access_token"].clone();
        std::fs::write(&file, login.to_string()).ok()?;
        Some(answer(request))
    });
    configure(&scene, &backend);
    log_in(&scene, "refused-access-token", "refresh-of-others");
    let output = hello(&scene, &issuer).output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    assert_eq!(output.out().trim(), "hello again");
    assert_eq!((backend.requests().len(), refreshes(&issuer)), (2, 0));
}

#[test]
fn a_refused_refresh_ends_with_how_to_log_in() {
    let (scene, issuer) = (scene(), Issuer::start());
    let backend = Provider::choosing(|request| Some(answer(request)));
    configure(&scene, &backend);
    log_in(&scene, "refused-access-token", "refresh-used-before");
    let before = kept(&scene);
    let output = hello(&scene, &issuer).output();
    assert_eq!(output.status, Some(1), "{}", output.all());
    assert!(output.err().contains("ferrum login"), "{}", output.err());
    assert!(
        !output.all().contains("refused-access-token") && !output.all().contains("refresh-used-before"),
        "{}",
        output.all()
    );
    assert_eq!((backend.requests().len(), refreshes(&issuer)), (1, 1));
    assert_eq!(kept(&scene), before);
}

#[test]
fn a_token_that_is_refused_after_its_refresh_is_not_refreshed_again() {
    let (scene, issuer) = (scene(), Issuer::start());
    let refused =
        json!({"error": {"message": "This account was deactivated.", "code": "account_deactivated"}});
    let backend = Provider::start(vec![status("401 Unauthorized", &refused.to_string())]);
    configure(&scene, &backend);
    log_in(&scene, "refused-access-token", "refresh-0");
    let output = hello(&scene, &issuer).output();
    assert_eq!(output.status, Some(1), "{}", output.all());
    assert!(output.err().contains("deactivated"), "{}", output.err());
    assert_eq!((backend.requests().len(), refreshes(&issuer)), (2, 1));
}

#[test]
fn without_a_login_nothing_is_asked() {
    let (scene, issuer) = (scene(), Issuer::start());
    let backend = Provider::choosing(|request| Some(answer(request)));
    configure(&scene, &backend);
    let output = hello(&scene, &issuer).output();
    assert!(matches!(output.status, Some(1 | 2)), "{}", output.all());
    assert!(output.err().contains("ferrum login"), "{}", output.err());
    assert_eq!((backend.requests().len(), refreshes(&issuer)), (0, 0));
}
