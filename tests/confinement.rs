//! Escapes: each is first shown to succeed unconfined, then run through the whole path (front,
//! launcher, host, stage), and what counts is only what is to be seen from outside.
//!
//! Every escape runs twice under the walls: from a program file in the writable root, which the
//! text policy does not read, and as the command's own text at `--shell auto`.

mod cuts;
mod degraded;
mod descriptors;
mod exchanged;
mod high;
mod kernel;
mod low;
mod network;
mod persistence;
mod privacy;
mod processes;
mod reads;
mod survivors;
mod tools;
mod writes;

use ferrum_tests::listen::Listeners;
use ferrum_tests::outside::Tree;
use ferrum_tests::processes::Victim;
use ferrum_tests::run::{Output, Run};
use ferrum_tests::scene::{Scene, ToolRun};
use ferrum_tests::who::{Who, everyone};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How it is seen from outside that an escape succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// A secret of the scene comes out.
    Leaks,
    /// Something changed that no act may change.
    Changes,
    /// Something planted runs when the user works on in the checkout.
    Runs,
    /// A listener outside is reached.
    Reaches,
    /// A process outside is harmed.
    Harms,
    /// The script says [`WON`], which it does only after the forbidden call succeeded. For calls
    /// that leave nothing to be seen.
    Says,
}

/// As scripts print it: `echo won-$((6*7))`, so that the words of the script alone prove nothing.
const WON: &str = "won-42";

/// One attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Escape {
    name: &'static str,
    script: &'static str,
    proof: Proof,
    users: Users,
    /// Run unconfined first.
    prepare: &'static str,
    /// The unconfined run must succeed on every machine.
    sure: bool,
    /// Held by the mount view alone.
    by_mounts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Users {
    Any,
    Root,
}

/// A bash script. `@WORDS@` are replaced: see [`Stage::fill`].
pub(crate) const fn bash(name: &'static str, proof: Proof, script: &'static str) -> Escape {
    Escape {
        name,
        script,
        proof,
        users: Users::Any,
        prepare: "",
        sure: true,
        by_mounts: false,
    }
}

impl Escape {
    pub(crate) const fn as_root(mut self) -> Self {
        self.users = Users::Root;
        self
    }

    pub(crate) const fn after(mut self, prepare: &'static str) -> Self {
        self.prepare = prepare;
        self
    }

    /// The escape depends on a kernel option or a program that not every machine has.
    pub(crate) const fn if_it_can(mut self) -> Self {
        self.sure = false;
        self
    }

    pub(crate) const fn by_mounts(mut self) -> Self {
        self.by_mounts = true;
        self
    }

    /// It only looks at what is there.
    pub(crate) fn is_about_seeing(&self) -> bool {
        self.name.starts_with("see ") || self.name == "list its descriptors"
    }

    fn is_for(&self, who: &Who) -> bool {
        match self.users {
            Users::Any => true,
            Users::Root => who.is_root(),
        }
    }
}

/// A scene with everything that escapes aim at.
struct Stage {
    scene: Scene,
    listeners: Listeners,
    victim: Victim,
    before: Tree,
    condition: String,
}

impl Stage {
    fn set(who: &Who, escape: &Escape) -> Self {
        let scene = Scene::new(who);
        let listeners = Listeners::start(&scene);
        let victim = Victim::start(&scene);
        let mut stage = Self {
            condition: victim.condition(),
            before: Tree::default(),
            scene,
            listeners,
            victim,
        };
        if !escape.prepare.is_empty() {
            let output = stage.scene.bash(&stage.fill(escape.prepare));
            assert_eq!(
                output.status,
                Some(0),
                "{}: preparation: {}",
                escape.name,
                output.all()
            );
        }
        stage.before = stage.scene.protected();
        stage
    }

    fn fill(&self, script: &str) -> String {
        let scene = &self.scene;
        let listeners = &self.listeners;
        let words: [(&str, String); 14] = [
            ("@HOME@", scene.home().display().to_string()),
            ("@ROOT@", scene.root().display().to_string()),
            ("@OUT@", scene.outside().display().to_string()),
            ("@BASE@", scene.base().display().to_string()),
            ("@VICTIM@", self.victim.pid().to_string()),
            ("@TCP@", listeners.tcp.to_string()),
            ("@TCP6@", listeners.tcp6.to_string()),
            ("@UDP@", listeners.udp.to_string()),
            ("@INROOT@", listeners.unix_in_root.display().to_string()),
            ("@INTMP@", listeners.unix_in_tmp.display().to_string()),
            ("@INRUN@", listeners.unix_in_run.display().to_string()),
            ("@DGRAM@", listeners.datagrams_in_run.display().to_string()),
            ("@ABSTRACT@", listeners.abstract_name.clone()),
            ("@UID@", scene.who.uid.to_string()),
        ];
        words
            .iter()
            .fold(script.to_owned(), |text, (word, value)| text.replace(word, value))
    }

    /// What is to be seen of a success, in words; empty when there is nothing.
    fn evidence(&self, proof: Proof, output: &str) -> Vec<String> {
        let mut seen = Vec::new();
        if output.contains(&self.scene.secret) {
            seen.push("a secret came out".to_owned());
        }
        let mut changes = self.before.changes(&self.scene.protected());
        if proof == Proof::Runs {
            // Settings that were put back may be written in another form. What counts is below:
            // whether anything of them runs.
            changes.retain(|change| !change.contains(".git/config ("));
        }
        seen.extend(changes);
        let reached = self.listeners.reached();
        if reached > 0 {
            seen.push(format!("listeners outside were reached {reached} times"));
        }
        let condition = self.victim.condition();
        if condition != self.condition {
            seen.push(format!("the process outside changed: {condition}"));
        }
        if proof == Proof::Says && output.contains(WON) {
            seen.push(format!("the script got what it must not: {output}"));
        }
        if proof == Proof::Runs && self.planted_program_runs() {
            seen.push("a planted program ran in the user's hands".to_owned());
        }
        seen
    }

    /// Whether the evidence is of the kind that `proof` speaks of.
    fn succeeded(&self, proof: Proof, output: &str) -> bool {
        match proof {
            Proof::Leaks => output.contains(&self.scene.secret),
            Proof::Changes => self.before != self.scene.protected(),
            Proof::Runs => self.planted_program_runs(),
            Proof::Reaches => self.listeners.reached() > 0,
            Proof::Harms => self.victim.condition() != self.condition,
            Proof::Says => output.contains(WON),
        }
    }

    /// The user works on in the checkout. Planted programs make `outside/pwned`.
    fn planted_program_runs(&self) -> bool {
        let _ = self.scene.bash(include_str!("confinement/work_on.sh"));
        let mark = self.scene.outside().join("pwned");
        let ran = mark.exists();
        let _ = std::fs::remove_file(mark);
        ran
    }
}

/// The world in which ferrum runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum World {
    Whole,
    /// A seccomp filter refuses new namespaces.
    NamespacesDenied,
    /// `user.max_user_namespaces` is 0.
    NamespacesUsedUp,
    /// A part of `/proc` is covered, as in containers: no `/proc` of one's own, so no pid namespace.
    ProcCovered,
}

impl World {
    pub(crate) fn wrap(self, run: Run) -> Run {
        match self {
            Self::Whole => run,
            Self::NamespacesDenied => Run {
                without_namespaces: true,
                ..run
            },
            Self::NamespacesUsedUp => inside(run, "echo 0 > /proc/sys/user/max_user_namespaces"),
            Self::ProcCovered => inside(run, "mount -t tmpfs none /proc/fs"),
        }
    }

    fn expected_isolation(self) -> &'static str {
        match self {
            Self::Whole => "full",
            Self::NamespacesDenied | Self::NamespacesUsedUp | Self::ProcCovered => "kernel",
        }
    }

    fn has_mounts(self) -> bool {
        matches!(self, Self::Whole | Self::ProcCovered)
    }
}

/// Runs in user and mount namespaces that `change` was made to, with no capability left.
fn inside(run: Run, change: &str) -> Run {
    let (uid, gid) = (run.who.uid, run.who.gid);
    let mut words = ["unshare", "--user", "--mount", "--keep-caps"]
        .map(str::to_owned)
        .to_vec();
    words.extend([format!("--map-user={uid}"), format!("--map-group={gid}")]);
    words.extend(["bash", "-c"].map(str::to_owned));
    words.push(format!(
        "{change} || exit 99; exec setpriv --inh-caps=-all --ambient-caps=-all -- \"$@\""
    ));
    words.push("world".to_owned());
    run.under(words)
}

/// Runs a table for every user; all failures are reported together.
#[track_caller]
pub(crate) fn refuse_all(world: World, table: &[Escape]) {
    let users = everyone();
    let rows: Vec<(&Who, &Escape)> = users
        .iter()
        .flat_map(|who| table.iter().map(move |escape| (who, escape)))
        .filter(|(who, escape)| escape.is_for(who) && (world.has_mounts() || !escape.by_mounts))
        .collect();
    let failures: Vec<String> = at_once(&rows, |(who, escape)| {
        let report = refuse(world, who, escape).err()?;
        Some(format!("* {} (as {}): {report}", escape.name, who.name))
    });
    assert!(
        failures.is_empty(),
        "escapes that were not held:\n{}",
        failures.join("\n")
    );
}

/// Each row stands on a scene of its own and mostly waits for processes, so a few go side by side.
pub(crate) fn at_once<T: Sync>(rows: &[T], check: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(failure) = check(row) {
                        failures
                            .lock()
                            .expect("no check panics while it holds this")
                            .push(failure);
                    }
                }
            });
        }
    });
    failures.into_inner().expect("all checks are over")
}

fn refuse(world: World, who: &Who, escape: &Escape) -> Result<(), String> {
    if !succeeds_unconfined(who, escape)? {
        return Ok(());
    }
    // A scene for each: in the first the user has worked on.
    for from_file in [true, false] {
        let stage = Stage::set(who, escape);
        let script = stage.fill(escape.script);
        let (label, command) = if from_file {
            let program = stage.scene.root().join("probe-act");
            stage
                .scene
                .write_program(&program, &format!("#!/bin/bash\n{script}\n"));
            ("as a program", "./probe-act")
        } else {
            ("as text", script.as_str())
        };
        let run = stage.scene.command_run(command, &["--safety", "medium"]);
        let ran = ToolRun::of(&world.wrap(run));
        check_that_it_ran(world, &ran, from_file).map_err(|report| format!("{label}: {report}"))?;
        let seen = stage.evidence(escape.proof, &ran.output.all());
        if !seen.is_empty() {
            return Err(format!("{label}: {}\n{}", seen.join("; "), excerpt(&ran.output)));
        }
    }
    Ok(())
}

/// A refusal by text is no proof of a wall, so a program file must really have run.
fn check_that_it_ran(world: World, ran: &ToolRun, from_file: bool) -> Result<(), String> {
    let wanted = world.expected_isolation();
    match ran.outcome() {
        "done" if ran.effective() == wanted => Ok(()),
        "done" => Err(format!("isolation is {:?}, not {wanted:?}", ran.effective())),
        "refused" if !from_file => Ok(()),
        other => Err(format!("outcome {other}: {}", excerpt(&ran.output))),
    }
}

/// The same script on a sacrificial scene of its own, without walls.
fn succeeds_unconfined(who: &Who, escape: &Escape) -> Result<bool, String> {
    let stage = Stage::set(who, escape);
    let output = stage.scene.bash(&stage.fill(escape.script));
    if stage.succeeded(escape.proof, &output.all()) {
        return Ok(true);
    }
    let report = format!(
        "does not succeed unconfined, so it proves nothing here: {}",
        excerpt(&output)
    );
    if escape.sure {
        return Err(report);
    }
    ferrum_tests::not_tried(&format!("{} as {}: {report}", escape.name, who.name));
    Ok(false)
}

fn excerpt(output: &Output) -> String {
    let text = output.all();
    let end = text.char_indices().nth(1500).map_or(text.len(), |(at, _)| at);
    text[..end].trim().to_owned()
}
