//! A scripted launcher: faults lead to fresh hosts, and to nothing else.

use super::*;
use crate::host::script::{HostPeer, bash, granted, hello};
use ferrum_proto::charter::ToolsWish;
use ferrum_proto::control::{FromLauncher, ToLauncher};
use ferrum_proto::frame::{FrameReader, encode};
use ferrum_proto::limits::CONTROL_FRAME_BYTES_MAX;
use ferrum_proto::order::ToLauncherOrder;
use ferrum_proto::reply::FromHost;
use ferrum_proto::terms::Tier;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use std::io::{IoSliceMut, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// The launcher's end of the control socket.
struct LauncherPeer {
    socket: UnixStream,
    frames: FrameReader,
    order: ToLauncherOrder,
    /// One read may end with the descriptor of its last message.
    passed: Option<HostPeer>,
}

impl LauncherPeer {
    fn say(&mut self, message: &FromLauncher) {
        let frame = encode(message, CONTROL_FRAME_BYTES_MAX).expect("fits");
        let _ = self.socket.write_all(&frame);
    }

    /// The next message with its descriptor, judged by the launcher's own table.
    fn hear(&mut self) -> Option<(ToLauncher, Option<HostPeer>)> {
        loop {
            if let Some(message) = self
                .frames
                .next::<ToLauncher>()
                .expect("the front speaks the protocol")
            {
                let opens = matches!(message, ToLauncher::OpenHost { .. });
                let passed = if opens { self.passed.take() } else { None };
                self.order
                    .admit(&message, usize::from(passed.is_some()))
                    .expect("in order");
                return Some((message, passed));
            }
            let (bytes, descriptor) = self.receive()?;
            self.frames.push(&bytes);
            assert!(self.passed.is_none() || descriptor.is_none());
            self.passed = self
                .passed
                .take()
                .or(descriptor.map(|fd| HostPeer::new(UnixStream::from(fd))));
        }
    }

    fn receive(&self) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        let mut buffer = [0; 4096];
        let mut space = nix::cmsg_space!([i32; 4]);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let got = recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut space),
            MsgFlags::empty(),
        )
        .ok()?;
        let descriptors = got.cmsgs().expect("whole").find_map(|message| match message {
            ControlMessageOwned::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let bytes = got.bytes;
        let fds: Vec<OwnedFd> = descriptors
            .unwrap_or_default()
            .into_iter()
            .map(crate::sys::adopt)
            .collect();
        assert!(fds.len() <= 1);
        (bytes > 0).then(|| (buffer[..bytes].to_vec(), fds.into_iter().next()))
    }

    /// Answers the greeting and takes the charter.
    fn greet(&mut self) {
        assert!(matches!(self.hear(), Some((ToLauncher::Hello { .. }, None))));
        assert!(matches!(self.hear(), Some((ToLauncher::Charter(_), None))));
        self.say(&FromLauncher::Hello {
            protocol: ferrum_proto::PROTOCOL,
            build: ferrum_proto::BUILD.to_owned(),
        });
    }

    /// Waits for a request for a host, passing over closings.
    fn open(&mut self) -> Option<(u32, HostPeer)> {
        loop {
            match self.hear()? {
                (ToLauncher::OpenHost { host, cwd, .. }, Some(peer)) => {
                    assert_eq!(cwd.as_path(), std::path::Path::new("/w"));
                    return Some((host, peer));
                }
                (ToLauncher::CloseHost { .. }, None) => {}
                (other, _) => panic!("{other:?}"),
            }
        }
    }

    fn start(&mut self) -> Option<HostPeer> {
        let (host, peer) = self.open()?;
        self.say(&FromLauncher::HostStarted { host });
        Some(peer)
    }
}

/// Everything up to the first request, as `main` does it, with a launcher that plays `script`.
fn begin(
    script: impl FnOnce(&mut LauncherPeer) + Send + 'static,
) -> (Control, Opened, Place, JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let peer = std::thread::spawn(move || {
        script(&mut LauncherPeer {
            socket: theirs,
            frames: FrameReader::new(CONTROL_FRAME_BYTES_MAX),
            order: ToLauncherOrder::default(),
            passed: None,
        });
    });
    let place = Place {
        cwd: PathBytes(b"/w".to_vec()),
        wish: Wish {
            tier: Some(Tier::High),
            tools: ToolsWish::None,
            ..Wish::default()
        },
    };
    let mut control = Control::new(ours);
    control
        .send_charter(crate::config::tests_charter())
        .expect("sent");
    let first = control.open_host(&place.cwd, &place.wish).expect("asked");
    (control, first, place, peer)
}

async fn hosts(
    script: impl FnOnce(&mut LauncherPeer) + Send + 'static,
) -> (Result<Hosts, Fault>, JoinHandle<()>) {
    let (control, first, place, peer) = begin(script);
    (
        Hosts::start(Launcher::played(), control, first, place).await,
        peer,
    )
}

async fn end(peer: JoinHandle<()>) {
    let joined = tokio::task::spawn_blocking(|| peer.join()).await;
    joined.expect("joined").expect("the script ran through");
}

#[tokio::test]
async fn a_dead_host_is_a_fault_and_the_next_call_gets_a_fresh_one() {
    let (hosts, peer) = hosts(|launcher| {
        launcher.greet();
        let mut first = launcher.start().expect("asked");
        first.greet();
        first.hear();
        first.hear();
        drop(first);
        launcher.say(&FromLauncher::HostExited {
            host: 1,
            how: "signal 9".into(),
        });
        let mut second = launcher.start().expect("asked again");
        second.greet();
        second.hear();
        second.hear();
        second.answer(1, "back");
        while launcher.hear().is_some() {}
    })
    .await;
    let hosts = hosts.expect("granted");
    let fault = hosts.call(bash("boom"), &mut |_| ()).await.expect_err("dead");
    assert_eq!(
        fault.to_string(),
        "the tool host ended (signal 9); whether the call took effect is unknown"
    );
    assert_eq!(
        hosts
            .call(bash("true"), &mut |_| ())
            .await
            .expect("answered")
            .text,
        "back"
    );
    hosts.close().await;
    end(peer).await;
}

#[tokio::test]
async fn a_fresh_host_under_another_policy_is_not_used() {
    let (hosts, peer) = hosts(|launcher| {
        launcher.greet();
        let mut first = launcher.start().expect("asked");
        first.greet();
        first.hear();
        first.hear();
        drop(first);
        let mut second = launcher.start().expect("asked again");
        second.say(&hello());
        let other = ferrum_proto::seal::Granted {
            tier: Tier::Low,
            ..granted()
        };
        second.say(&FromHost::Granted(Box::new(other)));
        while launcher.hear().is_some() {}
    })
    .await;
    let hosts = hosts.expect("granted");
    let first = hosts.call(bash("a"), &mut |_| ()).await;
    assert!(first.is_err());
    let fault = hosts
        .call(bash("b"), &mut |_| ())
        .await
        .expect_err("another policy");
    assert_eq!(fault, Fault::NotStarted(Cause::PolicyChanged));
    hosts.close().await;
    end(peer).await;
}

#[tokio::test]
async fn a_refusal_is_told_in_the_launchers_words() {
    let (hosts, peer) = hosts(|launcher| {
        launcher.greet();
        let (host, peer) = launcher.open().expect("asked");
        drop(peer);
        launcher.say(&FromLauncher::HostRefused {
            host,
            message: "below the ceiling".into(),
        });
        while launcher.hear().is_some() {}
    })
    .await;
    let fault = hosts.expect_err("refused");
    assert_eq!(
        fault.to_string(),
        "no tool host was started: below the ceiling; nothing was run"
    );
    end(peer).await;
}

#[tokio::test]
async fn a_dead_or_hostile_launcher_is_a_fault_until_restart() {
    // It ends after the request for a host: sooner, and the request itself might fail.
    let (dead, peer) = hosts(|launcher| {
        launcher.greet();
        launcher.hear();
    })
    .await;
    assert!(matches!(dead, Err(Fault::NotStarted(Cause::Launcher(_)))));
    end(peer).await;
    let (hostile, peer) = hosts(|launcher| {
        launcher.greet();
        let mut first = launcher.start().expect("asked");
        first.greet();
        first.hear();
        first.hear();
        launcher.say(&FromLauncher::HostStarted { host: 9 });
        drop(first);
        while launcher.hear().is_some() {}
    })
    .await;
    let hosts = hostile.expect("granted");
    let fault = hosts.call(bash("a"), &mut |_| ()).await.expect_err("given up");
    assert!(
        fault
            .to_string()
            .contains("the launcher of tool hosts is gone: id 9"),
        "{fault}"
    );
    assert!(fault.cause().hint().contains("start ferrum again"));
    hosts.close().await;
    end(peer).await;
}
