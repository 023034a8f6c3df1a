//! Running the product while looking at it from outside: time, memory, what it leaves behind.

use crate::during::Intruder;
use crate::ground::Ground;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How often memory is looked at.
const SAMPLE: Duration = Duration::from_millis(10);

/// What was seen of one run.
#[derive(Debug, Default)]
pub struct Seen {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// `None`: ended by a signal, or never.
    pub status: Option<i32>,
    pub hung: bool,
    pub elapsed: Duration,
    /// Resident memory of all processes together, at most, in bytes.
    pub memory: u64,
    /// The intrusion happened while it mattered.
    pub intruded: bool,
}

/// Runs a command to its end or to the deadline.
///
/// # Errors
/// A sentence, when it cannot be started.
pub fn run(
    mut command: Command,
    input: Vec<u8>,
    deadline: Duration,
    mut intruder: Option<Intruder>,
) -> Result<Seen, String> {
    let mut child = command
        .spawn()
        .map_err(|e| format!("the product cannot be started: {e}"))?;
    drop(command);
    if let Some(mut pipe) = child.stdin.take() {
        std::thread::spawn(move || {
            // A product that reads no more is judged by its answer.
            let _ = pipe.write_all(&input);
        });
    }
    let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let began = Instant::now();
    let mut seen = Seen::default();
    let mut sampled = began;
    loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            seen.status = status.code();
            break;
        }
        if began.elapsed() > deadline {
            seen.hung = true;
            end(&mut child);
            break;
        }
        if let Some(intruder) = &mut intruder {
            intruder.look(child.id(), began.elapsed());
        }
        if sampled.elapsed() >= SAMPLE {
            sampled = Instant::now();
            seen.memory = seen.memory.max(memory(child.id()));
        }
        std::thread::sleep(if intruder.is_some() {
            Duration::from_micros(20)
        } else {
            Duration::from_millis(2)
        });
    }
    seen.elapsed = began.elapsed();
    seen.intruded = intruder.is_none_or(|intruder| intruder.was_in_time());
    seen.stdout = gathered(&stdout);
    seen.stderr = gathered(&stderr);
    Ok(seen)
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn collect<R: Read + Send + 'static>(pipe: Option<R>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    if let Some(mut pipe) = pipe {
        std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

/// A survivor that holds the pipe must not hang the run.
fn gathered(receiver: &Receiver<Vec<u8>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(part) = receiver.recv_timeout(Duration::from_secs(1)) {
        bytes.extend(part);
    }
    bytes
}

/// A terminal of its own for the product; what is written to it comes out of the other end.
///
/// # Errors
/// The system's, as a sentence.
pub fn terminal(command: &mut Command) -> Result<Receiver<Vec<u8>>, String> {
    let pty = nix::pty::openpty(None, None).map_err(|e| format!("no terminal: {e}"))?;
    let copy = |fd: &OwnedFd| fd.try_clone().map(Stdio::from).map_err(|e| e.to_string());
    command
        .stdin(copy(&pty.slave)?)
        .stdout(copy(&pty.slave)?)
        .stderr(copy(&pty.slave)?);
    ferrum_tests::sys::take_terminal(command);
    Ok(collect(Some(std::fs::File::from(pty.master))))
}

/// All that came out of a terminal.
pub fn shown(receiver: &Receiver<Vec<u8>>) -> Vec<u8> {
    gathered(receiver)
}

/// A process and all its descendants.
pub fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while at < all.len() && all.len() < 10_000 {
        let path = format!("/proc/{0}/task/{0}/children", all[at]);
        let children = std::fs::read_to_string(path).unwrap_or_default();
        all.extend(
            children
                .split_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
        at += 1;
    }
    all
}

fn memory(pid: u32) -> u64 {
    let resident = |pid: &u32| -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    family(pid).iter().filter_map(resident).sum::<u64>() << 10
}

/// Living processes that the ground's directory is known to: by environment, arguments or place.
pub fn survivors(ground: &Ground) -> Vec<String> {
    let began = Instant::now();
    loop {
        let left = living(&ground.base().display().to_string());
        if left.is_empty() || began.elapsed() > Duration::from_secs(2) {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Living processes with that word among their arguments.
pub fn named(name: &str) -> Vec<u32> {
    ferrum_tests::processes::left_after(name, Duration::from_secs(1))
}

fn living(place: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter_map(|pid| {
            let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let words = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            let known = words.contains(place) || String::from_utf8_lossy(&read("environ")).contains(place);
            (known && ferrum_tests::processes::is_running(pid)).then(|| format!("{pid} {words}"))
        })
        .collect()
}
