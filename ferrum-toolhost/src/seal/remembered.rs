//! A project's policy that was in force at an earlier start must not be gone or looser now, unless
//! the operator has accepted that.

use super::failed;
use ferrum_proto::charter::PolicyText;
use ferrum_proto::seal::{SealFailed, SealFailure};
use ferrum_proto::terms::PathBytes;
use policy::{ProjectFile, ProjectPolicy};
use std::path::Path;

/// Text of a project file that is remembered; a longer one is not.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Compares what was in force with what was read now.
///
/// # Errors
/// [`SealFailed`] that names the file and, where it is looser, the key.
pub fn check(remembered: &[PolicyText], now: &[ProjectFile], cwd: &Path) -> Result<(), SealFailed> {
    for before in remembered {
        let path = before.file.as_path();
        // `<directory>/.ferrum/config.toml` speaks for everything below the directory.
        let speaks = path
            .parent()
            .and_then(Path::parent)
            .is_some_and(|directory| cwd.starts_with(directory));
        if !speaks {
            continue;
        }
        let problem = match now.iter().find(|file| file.path == path) {
            None => Some("is gone, and with it a policy that was in force".to_owned()),
            Some(file) => match ProjectPolicy::parse(&before.text) {
                Ok(old) => policy::looser(&old, &file.policy)
                    .map(|key| format!("is looser than the policy that was in force (`{key}`)")),
                Err(_) => Some("replaces a policy that this version cannot read any more".to_owned()),
            },
        };
        if let Some(problem) = problem {
            let hint = "if that is right, accept it: ferrum trust --policy";
            return Err(failed(
                SealFailure::Policy,
                format!("{}: {problem}", path.display()),
                hint,
            ));
        }
    }
    Ok(())
}

/// What the front is to remember.
#[must_use]
pub fn texts(files: &[(ProjectFile, String)], notices: &mut Vec<String>) -> Vec<PolicyText> {
    let mut texts = Vec::new();
    for (file, text) in files {
        if text.len() > TEXT_BYTES_MAX {
            let path = file.path.display();
            notices.push(format!(
                "{path} is too large to be remembered: that it goes away will not be noticed"
            ));
            continue;
        }
        texts.push(PolicyText {
            file: PathBytes::from(file.path.as_path()),
            text: text.clone(),
        });
    }
    texts
}
