//! Facts + policy → permit. The only maker of [`Permit`], so that code which acts without a
//! verdict does not compile. Decides nothing itself.

use crate::from_wire::CommandText;
use crate::fs::path::lexical;
use crate::fs::place::Place;
use crate::fs::resolve::Found;
use policy::{Action, Refusal, Target, Tool, Verdict};
use std::path::Path;

/// What judging needs, for the life of a host.
#[derive(Debug, Clone)]
pub struct Judge {
    pub grant: policy::Grant,
    pub ground: policy::Ground,
}

impl Judge {
    /// The shell mode in force: `auto` rests on full isolation.
    #[must_use]
    pub fn shell(&self) -> policy::ShellMode {
        crate::report::shell(self.grant.shell(), self.ground.isolation)
    }
}

/// Something that policy has allowed, exactly as it was judged.
#[derive(Debug)]
pub struct Permit<T> {
    subject: T,
}

impl<T> Permit<T> {
    #[must_use]
    pub fn subject(&self) -> &T {
        &self.subject
    }

    #[must_use]
    pub fn into_subject(self) -> T {
        self.subject
    }
}

/// Is this tool exposed?
///
/// # Errors
/// The refusal.
pub fn tool(judge: &Judge, name: &str) -> Result<(), Refusal> {
    match Tool::from_name(name) {
        Some(tool) => verdict(judge, &Action::Use { tool }),
        None => Err(no_tool(name)),
    }
}

/// The refusal of a tool that there is not.
#[must_use]
pub fn no_tool(name: &str) -> Refusal {
    Refusal::plain("tool", format!("there is no tool {name} here"), "")
}

/// May this object be read or listed?
///
/// # Errors
/// The refusal.
pub fn read(judge: &Judge, found: Found) -> Result<Permit<Found>, Refusal> {
    beneath(judge, found.canonical())?;
    Ok(Permit { subject: found })
}

/// May this path be read? For what a walk meets below a permitted directory.
///
/// # Errors
/// The refusal.
pub fn beneath(judge: &Judge, canonical: &Path) -> Result<(), Refusal> {
    verdict(judge, &Action::Read { path: canonical })
}

/// May the file at this place be created or replaced?
///
/// # Errors
/// The refusal.
pub fn mutate(judge: &Judge, place: Place) -> Result<Permit<Place>, Refusal> {
    verdict(
        judge,
        &Action::Mutate {
            path: place.canonical(),
            target: place.target(),
        },
    )?;
    Ok(Permit { subject: place })
}

/// What policy says about the text of a path that leads to nothing. Only a refusal counts: it
/// tells the model more than the system's error, and a text never allows anything.
///
/// # Errors
/// The refusal.
pub fn unresolved(judge: &Judge, asked: &Path, mutation: bool) -> Result<(), Refusal> {
    let path = lexical(&judge.ground.cwd.join(asked));
    let action = if mutation {
        Action::Mutate {
            path: &path,
            target: Target::Absent,
        }
    } else {
        Action::Read { path: &path }
    };
    verdict(judge, &action)
}

/// What the prober aims at. No text policy: the walls alone are put to the test, and a host that
/// has a prober runs nothing else.
#[must_use]
pub fn probe(targets: CommandText) -> Permit<CommandText> {
    Permit { subject: targets }
}

/// May this command run? The text that was judged is the text in the permit.
///
/// # Errors
/// The refusal.
pub fn run(judge: &Judge, command: CommandText) -> Result<Permit<CommandText>, Refusal> {
    verdict(
        judge,
        &Action::Run {
            command: command.as_str(),
        },
    )?;
    Ok(Permit { subject: command })
}

fn verdict(judge: &Judge, action: &Action<'_>) -> Result<(), Refusal> {
    match policy::judge(&judge.grant, &judge.ground, action) {
        Verdict::Allow => Ok(()),
        Verdict::Refuse(refusal) => Err(refusal),
    }
}
