//! The steps that lay out a case, done by the tester before anything is handed to the user.

use crate::ground::Ground;
use crate::keys::Keys;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// What the steps leave beside files.
#[derive(Debug, Default, Clone)]
pub struct Prepared {
    /// `None` takes a variable away.
    pub environment: Vec<(String, Option<String>)>,
    /// Added to the user's configuration.
    pub config: String,
}

/// # Errors
/// A sentence that names the step.
pub fn all(steps: &[Keys], ground: &Ground) -> Result<Prepared, String> {
    let mut prepared = Prepared::default();
    for (number, step) in steps.iter().enumerate() {
        one(step.clone(), ground, &mut prepared).map_err(|problem| format!("setup[{number}]: {problem}"))?;
    }
    Ok(prepared)
}

fn one(mut step: Keys, ground: &Ground, prepared: &mut Prepared) -> Result<(), String> {
    let op = step.text("op")?.ok_or("no op")?;
    let to = step.text("to")?.map(|to| ground.path(&to));
    let mode = step.text("mode")?;
    let place = || to.as_deref().ok_or("no to");
    match op.as_str() {
        "copy" => {
            let from = ground.copies().join(step.text("from")?.ok_or("no from")?);
            let bytes = std::fs::read(&from).map_err(|e| format!("{}: {e}", from.display()))?;
            file(place()?, &bytes)?;
        }
        "text" => file(
            place()?,
            ground.fill(&step.text("text")?.ok_or("no text")?).as_bytes(),
        )?,
        "hex" => {
            let digits = step.text("hex")?.ok_or("no hex")?;
            file(place()?, &bytes_of_hex(&digits)?)?;
        }
        "mkdir" => std::fs::create_dir_all(place()?).map_err(|e| e.to_string())?,
        "fifo" => {
            parents(place()?)?;
            let everyone = nix::sys::stat::Mode::from_bits_truncate(0o644);
            nix::unistd::mkfifo(place()?, everyone).map_err(|e| e.to_string())?;
        }
        "symlink" => {
            parents(place()?)?;
            let target = ground.fill(&step.text("target")?.ok_or("no target")?);
            std::os::unix::fs::symlink(target, place()?).map_err(|e| e.to_string())?;
        }
        "sh" => shell(&step.text("sh")?.ok_or("no sh")?, ground)?,
        "env" => {
            for (name, value) in step.part("set")?.unwrap_or_default().rest() {
                let value = value.as_str().ok_or("a variable that is no text")?;
                prepared.environment.push((name, Some(ground.fill(value))));
            }
            for name in step.texts("unset")?.unwrap_or_default() {
                prepared.environment.push((name, None));
            }
        }
        "config" => {
            prepared
                .config
                .push_str(&ground.fill(&step.text("toml")?.ok_or("no toml")?));
            prepared.config.push('\n');
        }
        other => return Err(format!("the runner cannot express op {other}")),
    }
    if let (Some(mode), Some(path)) = (mode, &to) {
        let mode = u32::from_str_radix(&mode, 8).map_err(|e| format!("mode {mode}: {e}"))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(|e| e.to_string())?;
    }
    step.nothing_left(&format!("op {op}"))
}

/// Runs a line of shell in the working directory, as the tester and with the tester's programs.
///
/// # Errors
/// A sentence with what it printed.
pub fn shell(script: &str, ground: &Ground) -> Result<(), String> {
    let cwd = ground.cwd();
    let output = Command::new("/bin/sh")
        .args(["-c", &ground.fill(script)])
        .current_dir(if cwd.is_dir() { &cwd } else { ground.base() })
        .output()
        .map_err(|e| format!("sh: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "sh ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    ))
}

fn file(path: &Path, bytes: &[u8]) -> Result<(), String> {
    parents(path)?;
    std::fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

fn parents(path: &Path) -> Result<(), String> {
    let parent = path.parent().ok_or("a path without a parent")?;
    std::fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))
}

/// # Errors
/// A sentence.
pub fn bytes_of_hex(digits: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| {
            let pair: String = pair.iter().collect();
            u8::from_str_radix(&pair, 16).map_err(|e| format!("hex {pair:?}: {e}"))
        })
        .collect()
}
