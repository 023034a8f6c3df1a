//! `config` redirected to a private copy while commands run, and merged back key by key.

use super::parts::Part;
use super::{Findings, config, repos};
use crate::fs::name::shown;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// `config` redirected to a private copy.
pub(super) struct Redirect {
    pub(super) copy: PathBuf,
    /// Opened before the cover: the only way to write the real file from inside.
    pub(super) real: fs::File,
    pub(super) text: String,
}

impl Redirect {
    /// Takes over what somebody outside wrote into the file in place, such as another session's
    /// merge; a file that was replaced has lost its cover instead. True where there was something.
    pub(super) fn refresh(&mut self) -> bool {
        let read = self.real.seek(SeekFrom::Start(0));
        let read = read.and_then(|_| repos::whole(&self.real, repos::SMALL_BYTES_MAX));
        let text = match read.map(String::from_utf8) {
            Ok(Ok(text)) if text != self.text => text,
            _ => return false,
        };
        self.text = text;
        // A copy that stays behind is compared with the text, and reset, after the call.
        let _ = self.reset_copy();
        true
    }

    pub(super) fn reset_copy(&self) -> std::io::Result<()> {
        let part = Part::File {
            bytes: self.text.clone().into_bytes(),
            mode: 0o644,
        };
        part.restore(&self.copy)
    }

    /// Writes the harmless changes of the copy into the real file, in place: a rename onto a
    /// covered name is refused in the host's own namespace too.
    pub(super) fn merge(&mut self, path: &Path, findings: &mut Findings) {
        let new = repos::read_small(&self.copy);
        let is_changed = new.as_deref() != Some(&self.text);
        if self.refresh() && is_changed {
            findings.push(format!(
                "{} was changed from outside during the call; the call's own changes to it are left out",
                shown(path)
            ));
        }
        let new = repos::read_small(&self.copy);
        if new.as_deref() == Some(&self.text) {
            return;
        }
        let merged = match &new {
            Some(new) => config::merge(&self.text, new),
            None => config::Merged {
                text: self.text.clone(),
                dropped: vec!["the whole change (not a readable file)".into()],
            },
        };
        if merged.text != self.text {
            match self.write(&merged.text) {
                Ok(()) => self.text.clone_from(&merged.text),
                Err(e) => findings.push(format!("could not write {}: {e}", shown(path))),
            }
        }
        if !merged.dropped.is_empty() {
            findings.push(format!("{}: kept out {}", shown(path), merged.dropped.join(", ")));
        }
        if new.as_deref() != Some(&self.text)
            && let Err(e) = self.reset_copy()
        {
            findings.push(format!("could not reset the copy of {}: {e}", shown(path)));
        }
    }

    /// Makes `text` the content of both.
    pub(super) fn set(&mut self, text: String) -> std::io::Result<()> {
        self.write(&text)?;
        self.text = text;
        self.reset_copy()
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.real.seek(SeekFrom::Start(0))?;
        self.real.write_all(text.as_bytes())?;
        self.real.set_len(text.len() as u64)?;
        self.real.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_others_wrote_into_the_config_in_place_is_never_lost() {
        let directory = tempfile::tempdir().unwrap();
        let (path, copy) = (directory.path().join("config"), directory.path().join("copy"));
        let text = "[user]\n\tname = A\n".to_owned();
        fs::write(&path, &text).unwrap();
        fs::write(&copy, &text).unwrap();
        let real = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut redirect = Redirect {
            copy: copy.clone(),
            real,
            text,
        };
        let mut findings = Findings::new();
        // Between two calls: commands see it, and add to it.
        fs::write(&path, "[user]\n\tname = OTHERS\n").unwrap();
        assert!(redirect.refresh());
        assert_eq!(fs::read_to_string(&copy).unwrap(), "[user]\n\tname = OTHERS\n");
        fs::write(&copy, "[user]\n\tname = OTHERS\n\temail = a@b\n").unwrap();
        redirect.merge(&path, &mut findings);
        assert!(fs::read_to_string(&path).unwrap().contains("a@b"));
        assert_eq!(findings, Findings::new());
        // During a call that changes it too: theirs stays, and that is told.
        fs::write(&path, "[user]\n\tname = THEIRS\n").unwrap();
        fs::write(&copy, "[user]\n\tname = OURS\n").unwrap();
        redirect.merge(&path, &mut findings);
        assert_eq!(fs::read_to_string(&path).unwrap(), "[user]\n\tname = THEIRS\n");
        assert_eq!(fs::read_to_string(&copy).unwrap(), "[user]\n\tname = THEIRS\n");
        assert_eq!(findings.len(), 1);
    }
}
