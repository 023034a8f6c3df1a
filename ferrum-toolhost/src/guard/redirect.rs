//! `config` redirected to a private copy while commands run, and merged back key by key.

use super::parts::Part;
use super::{Findings, config, repos};
use crate::fs::name::shown;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
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
        let mut text = String::new();
        let read = self.real.seek(SeekFrom::Start(0));
        let read = read.and_then(|_| {
            (&self.real)
                .take(repos::SMALL_BYTES_MAX)
                .read_to_string(&mut text)
        });
        if read.is_err() || text == self.text {
            return false;
        }
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
