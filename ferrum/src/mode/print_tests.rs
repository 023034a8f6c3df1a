//! The whole of print mode with a scripted host.

use super::*;
use crate::agent::turn::tests::{ScriptedHost, host};
use crate::provider::{ProviderKind, ProviderSettings};

fn settings(kind: ProviderKind, base_url: &str) -> ProviderSettings {
    ProviderSettings::new("fake", kind, base_url, "fake")
}

fn play(
    host: &ScriptedHost,
    data: &Path,
    session: &str,
    settings: ProviderSettings,
) -> (Report, String, String) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let plan = Plan {
        preface: Vec::new(),
        provider: Provider::new(settings).unwrap(),
        prompt: "hello".into(),
        session: Some(session.into()),
        title: None,
        data: data.to_owned(),
        secrets: Vec::new(),
    };
    let (mut answers, mut rest) = (Vec::new(), Vec::new());
    let output = Output {
        answers: &mut answers,
        answers_terminal: true,
        rest: &mut rest,
    };
    let report = runtime.block_on(run(host, plan, output));
    (
        report,
        String::from_utf8(answers).unwrap(),
        String::from_utf8(rest).unwrap(),
    )
}

const ALL: [&str; 8] = ["read", "write", "edit", "bash", "wait", "grep", "find", "ls"];

#[test]
fn the_tour_answers_on_stdout_and_works_on_stderr() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(&ALL);
    let fake = || settings(ProviderKind::Fake, "");
    let (report, answers, rest) = play(&host, dir.path(), "tour", fake());
    assert_eq!(report.exit.code(), 0, "{report:?}");
    assert!(
        answers.contains("tour") && answers.contains("What happened"),
        "{answers}"
    );
    assert!(rest.contains("→ bash\n  command: sudo id"), "{rest}");
    assert!(!answers.contains("→"));

    let records = log::load(&report.session.unwrap()).unwrap().records;
    let record::Body::Header(header) = &records[0].1.body else {
        panic!("no header")
    };
    assert_eq!(header["isolation"]["requested"], "kernel");
    assert_eq!(header["isolation"]["effective"], "full");
    assert_eq!(
        (&header["mode"], &header["safety"]),
        (&json!("print"), &json!("medium"))
    );

    // Taken up again: one header, twice the turns.
    let (report, _, _) = play(&host, dir.path(), "tour", fake());
    let again = log::load(&report.session.unwrap()).unwrap().records;
    let headers = again
        .iter()
        .filter(|(_, r)| matches!(r.body, record::Body::Header(_)))
        .count();
    assert_eq!(headers, 1);
    assert!(again.len() > 2 * records.len() - 2);
}

#[test]
fn failures_have_their_exit_codes_and_keep_the_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(&ALL);
    let chat = |url| settings(ProviderKind::OpenAiCompatible, url);
    let (report, ..) = play(&host, dir.path(), "../x", settings(ProviderKind::Fake, ""));
    assert_eq!(report.exit.code(), 2);
    let (report, answers, _) = play(&host, dir.path(), "b", chat("http://127.0.0.1:1/v1"));
    assert_eq!(report.exit.code(), 1, "{report:?}");
    assert_eq!(answers, "");
    let records = log::load(&dir.path().join("sessions/b.jsonl")).unwrap().records;
    let messages = record::conversation(records.into_iter().map(|(_, r)| r));
    assert_eq!(messages, [Message::text(Role::User, "hello")]);
}

#[test]
fn a_reader_who_leaves_is_an_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::BrokenPipe))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let plan = Plan {
        preface: Vec::new(),
        provider: Provider::new(settings(ProviderKind::Fake, "")).unwrap(),
        prompt: "hello".into(),
        session: None,
        title: None,
        data: dir.path().to_owned(),
        secrets: Vec::new(),
    };
    let mut rest = Vec::new();
    let output = Output {
        answers: &mut Closed,
        answers_terminal: false,
        rest: &mut rest,
    };
    let report = runtime.block_on(run(&host(&ALL), plan, output));
    assert!(
        matches!(report.exit, Exit::Failed(PrintError::Output(_))),
        "{report:?}"
    );
}
