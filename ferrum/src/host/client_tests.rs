//! A hostile host against the client: each fault has its name, none hangs or panics.

use super::*;
use crate::host::script::{HostPeer, bash, granted, hello, ready, reply};
use ferrum_proto::limits::RESULT_BYTES_MAX;
use ferrum_proto::seal::{SealFailed, SealFailure};
use std::thread::JoinHandle;

/// A client whose host plays `script` in a thread of its own, then hangs up.
fn client(script: impl FnOnce(&mut HostPeer) + Send + 'static) -> (HostClient, JoinHandle<()>) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let peer = std::thread::spawn(move || script(&mut HostPeer::new(theirs)));
    let opened = Opened {
        host: 1,
        socket: ours,
    };
    (HostClient::start(opened, Arc::default()).expect("starts"), peer)
}

/// Hangs up and waits for the script's end beside the runtime, which still has to close the socket.
async fn end(client: HostClient, peer: JoinHandle<()>) {
    drop(client);
    let joined = tokio::task::spawn_blocking(|| peer.join()).await;
    joined.expect("joined").expect("the script ran through");
}

async fn one_call(script: impl FnOnce(&mut HostPeer) + Send + 'static) -> Result<ToolResult, Fault> {
    let (client, peer) = client(script);
    let result = client.call(bash("true"), &mut |_| ()).await;
    assert_eq!(client.is_lost(), result.is_err());
    end(client, peer).await;
    result
}

#[tokio::test]
async fn chunks_make_a_text_and_progress_is_passed_on() {
    let (client, peer) = client(|host| {
        host.greet();
        let Some(ToHost::Call { id, .. }) = host.hear() else {
            panic!("a call")
        };
        host.say(&FromHost::Progress {
            id,
            text: "still here".into(),
        });
        // Split within the first character.
        host.say(&FromHost::Chunk {
            id,
            bytes: vec![0xc3],
        });
        host.say(&FromHost::Chunk {
            id,
            bytes: vec![0xa4, b'!'],
        });
        host.say(&FromHost::Reply { id, reply: reply(3) });
        host.drain();
    });
    assert_eq!(client.granted().await, Ok(granted()));
    assert_eq!(client.ready().await, Ok(ready()));
    let mut seen = Vec::new();
    let result = client
        .call(bash("true"), &mut |text| seen.push(text.to_owned()))
        .await
        .expect("answered");
    assert_eq!(
        (result.text.as_str(), seen),
        ("ä!", vec!["still here".to_owned()])
    );
    end(client, peer).await;
}

#[tokio::test]
async fn calls_overlap_and_each_gets_its_own_answer() {
    let (client, peer) = client(|host| {
        host.greet();
        let calls: Vec<_> = (0..3).filter_map(|_| host.hear()).collect();
        for call in calls.into_iter().rev() {
            let ToHost::Call { id, .. } = call else {
                panic!("a call")
            };
            host.answer(id, &format!("answer {id}"));
        }
        host.drain();
    });
    let mut ignore = [|_: &str| (), |_: &str| (), |_: &str| ()];
    let [a, b, c] = &mut ignore;
    let all = futures_util::future::join3(
        client.call(bash("a"), a),
        client.call(bash("b"), b),
        client.call(bash("c"), c),
    );
    let (a, b, c) = all.await;
    let texts = [a, b, c].map(|result| result.expect("answered").text);
    assert_eq!(texts, ["answer 1", "answer 2", "answer 3"]);
    end(client, peer).await;
}

#[tokio::test]
async fn dropping_a_call_cancels_it_and_the_next_one_works() {
    let (client, peer) = client(|host| {
        host.greet();
        assert!(matches!(host.hear(), Some(ToHost::Call { id: 1, .. })));
        assert_eq!(host.hear(), Some(ToHost::Cancel { id: 1 }));
        assert!(matches!(host.hear(), Some(ToHost::Call { id: 2, .. })));
        host.answer(1, "too late");
        host.answer(2, "in time");
        host.drain();
    });
    client.ready().await.expect("ready");
    let cancelled =
        tokio::time::timeout(Duration::from_millis(20), client.call(bash("sleep"), &mut |_| ())).await;
    assert!(cancelled.is_err());
    let result = client.call(bash("true"), &mut |_| ()).await.expect("answered");
    assert_eq!(result.text, "in time");
    end(client, peer).await;
}

#[tokio::test]
async fn a_failed_seal_is_told_with_its_kind() {
    let failed = SealFailed {
        kind: SealFailure::Isolation,
        message: "no Landlock".into(),
        hint: "boot with it".into(),
    };
    let said = failed.clone();
    let result = one_call(move |host| {
        host.say(&hello());
        host.say(&FromHost::SealFailed(said));
    });
    assert_eq!(result.await, Err(Fault::NotStarted(Cause::Seal(failed))));
}

#[tokio::test]
async fn every_breach_before_the_walls_is_a_fault_and_nothing_was_run() {
    type Script = fn(&mut HostPeer);
    let cases: [(&str, Script, &str); 10] = [
        (
            "no greeting",
            |host| host.say(&FromHost::Ready(Box::new(ready()))),
            "greeting missing",
        ),
        (
            "two greetings",
            |host| [hello(), hello()].iter().for_each(|m| host.say(m)),
            "greeting missing or repeated",
        ),
        (
            "another protocol",
            |host| {
                host.say(&FromHost::Hello {
                    protocol: 9,
                    build: ferrum_proto::BUILD.into(),
                })
            },
            "protocol 9",
        ),
        (
            "another build",
            |host| {
                host.say(&FromHost::Hello {
                    protocol: ferrum_proto::PROTOCOL,
                    build: "9.9.9".into(),
                })
            },
            "another build (9.9.9)",
        ),
        (
            "ready before the grant",
            |host| {
                [hello(), FromHost::Ready(Box::new(ready()))]
                    .iter()
                    .for_each(|m| host.say(m))
            },
            "ready is not allowed",
        ),
        (
            "two grants",
            |host| {
                let grant = || FromHost::Granted(Box::new(granted()));
                [hello(), grant(), grant()].iter().for_each(|m| host.say(m));
            },
            "second grant",
        ),
        ("a huge length", |host| host.raw(&[0xff; 16]), "at most"),
        (
            "an unknown variant",
            |host| host.raw(&[2, 0, 0, 0, 1, 250]),
            "known message",
        ),
        (
            "junk after the message",
            |host| host.raw(&[7, 0, 0, 0, 1, 5, 1, 0, 0, 0, 0]),
            "left over",
        ),
        (
            "a cut frame",
            |host| host.raw(&[9, 0, 0, 0, 1]),
            "in the middle of a message",
        ),
    ];
    for (name, script, part) in cases {
        let fault = one_call(script).await.expect_err(name);
        let text = fault.to_string();
        assert!(matches!(fault, Fault::NotStarted(_)), "{name}: {text}");
        assert!(
            text.contains(part) && text.ends_with("nothing was run"),
            "{name}: {text}"
        );
    }
}

/// Greets, hears the call 1, then says `messages`.
fn after_the_call(messages: Vec<FromHost>) -> impl FnOnce(&mut HostPeer) + Send + 'static {
    move |host| {
        host.greet();
        host.hear();
        messages.iter().for_each(|message| host.say(message));
        host.drain();
    }
}

#[tokio::test]
async fn every_breach_during_a_call_is_a_fault_with_unknown_effect() {
    let chunk = |id, length: usize| FromHost::Chunk {
        id,
        bytes: vec![b'x'; length],
    };
    let progress = |length: usize| FromHost::Progress {
        id: 1,
        text: "x".repeat(length),
    };
    let full = ferrum_proto::limits::CHUNK_BYTES_MAX;
    let too_much = (0..=RESULT_BYTES_MAX / full).map(|_| chunk(1, full)).collect();
    let cases: Vec<(&str, Vec<FromHost>, &str)> = vec![
        (
            "a reply to nothing",
            vec![FromHost::Reply {
                id: 7,
                reply: reply(0),
            }],
            "id 7",
        ),
        ("a chunk for nothing", vec![chunk(2, 1)], "id 2"),
        ("a chunk above the limit", vec![chunk(1, full + 1)], "too long"),
        ("a result above the limit", too_much, "too long"),
        (
            "a length that is not so",
            vec![
                chunk(1, 3),
                FromHost::Reply {
                    id: 1,
                    reply: reply(4),
                },
            ],
            "not as long",
        ),
        (
            "a long progress line",
            vec![progress(PROGRESS_BYTES_MAX + 1)],
            "progress line above",
        ),
        (
            "a text that is none",
            vec![
                FromHost::Chunk {
                    id: 1,
                    bytes: vec![0xff],
                },
                FromHost::Reply {
                    id: 1,
                    reply: reply(1),
                },
            ],
            "not UTF-8",
        ),
        (
            "ready again",
            vec![FromHost::Ready(Box::new(ready()))],
            "ready is not allowed",
        ),
        (
            "a late grant",
            vec![FromHost::Granted(Box::new(granted()))],
            "second grant",
        ),
    ];
    for (name, messages, part) in cases {
        let fault = one_call(after_the_call(messages)).await.expect_err(name);
        let text = fault.to_string();
        assert!(matches!(fault, Fault::EffectUnknown(_)), "{name}: {text}");
        assert!(
            text.contains(part) && text.ends_with("is unknown"),
            "{name}: {text}"
        );
    }
    let gone = one_call(|host| {
        host.greet();
        host.hear();
    });
    assert_eq!(
        gone.await,
        Err(Fault::EffectUnknown(Cause::Closed {
            cut: false,
            how: None
        }))
    );
}

#[tokio::test]
async fn a_reply_after_the_answer_ends_the_connection() {
    let (client, peer) = client(|host| {
        host.greet();
        host.hear();
        host.answer(1, "once");
        host.answer(1, "twice");
        host.drain();
    });
    assert_eq!(
        client
            .call(bash("true"), &mut |_| ())
            .await
            .expect("answered")
            .text,
        "once"
    );
    let fault = client
        .call(bash("true"), &mut |_| ())
        .await
        .expect_err("given up");
    assert!(fault.to_string().contains("id 1"), "{fault}");
    end(client, peer).await;
}

/// The clock stands still until nothing else is left to do, then jumps to the deadline.
#[tokio::test(start_paused = true)]
async fn silence_is_a_fault_at_every_step() {
    let steps: [(&[FromHost], &str); 3] = [
        (&[], "no greeting within 10 s"),
        (&[hello()], "no policy within 30 s"),
        (
            &[hello(), FromHost::Granted(Box::new(granted()))],
            "no walls within 30 s",
        ),
    ];
    for (said, part) in steps {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
        let mut host = HostPeer::new(theirs);
        said.iter().for_each(|message| host.say(message));
        let client = HostClient::start(
            Opened {
                host: 1,
                socket: ours,
            },
            Arc::default(),
        )
        .expect("starts");
        let fault = client.call(bash("true"), &mut |_| ()).await.expect_err(part);
        assert!(fault.to_string().contains(part), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_is_never_answered_gives_the_host_up() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let mut host = HostPeer::new(theirs);
    host.greet();
    let client = HostClient::start(
        Opened {
            host: 1,
            socket: ours,
        },
        Arc::default(),
    )
    .expect("starts");
    let call = tokio::time::timeout(Duration::from_millis(5), client.call(bash("sleep"), &mut |_| ())).await;
    assert!(call.is_err() && !client.is_lost());
    tokio::time::sleep(Duration::from_millis(CANCEL_MS_MAX + 1)).await;
    assert!(client.is_lost());
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_refused_here_and_the_host_lives() {
    let (client, peer) = client(|host| {
        host.greet();
        let Some(ToHost::Call { id, .. }) = host.hear() else {
            panic!("a call")
        };
        host.answer(id, "fine");
        host.drain();
    });
    let fault = client
        .call(bash(&"x".repeat(TO_HOST_FRAME_BYTES_MAX)), &mut |_| ())
        .await
        .expect_err("too large");
    assert!(matches!(fault, Fault::NotStarted(Cause::Request(_))), "{fault}");
    assert_eq!(
        client
            .call(bash("true"), &mut |_| ())
            .await
            .expect("answered")
            .text,
        "fine"
    );
    end(client, peer).await;
}

#[tokio::test]
async fn more_calls_than_the_wire_allows_are_refused_here() {
    let (client, peer) = client(|host| {
        host.greet();
        host.drain();
    });
    client.ready().await.expect("ready");
    let open: Vec<_> = (0..PENDING_CALLS_MAX)
        .map(|_| client.send(bash("true")).expect("room"))
        .collect();
    assert_eq!(client.send(bash("true")).err(), Some(Cause::Pending));
    drop(open);
    end(client, peer).await;
}
