//! What is said before a conversation begins: to the operator what the checkout holds, to the model
//! its instructions.

use super::inspect;
use crate::agent::event::{Event, Sink};
use crate::agent::message::Message;
use crate::config::Config;
use crate::context::{self, Instruction, Runtime, Sources};
use crate::exit::{Failure, Kind};
use crate::output::Output;
use crate::provider::Provider;
use crate::trust::Trust;
use ferrum_proto::seal::Granted;

/// What it is made from, beside the provider and the grant.
pub struct Preface<'a> {
    pub config: &'a Config,
    /// The model as the user names it.
    pub model: &'a str,
    pub max_context_tokens: u64,
    /// `--untrusted`.
    pub untrusted: bool,
    pub trust: &'a Trust,
}

impl Preface<'_> {
    /// Remembers the project's policy, reads context files and skills, and tells what is to be known
    /// about them.
    ///
    /// # Errors
    /// [`Failure`] for a `system.md` that cannot be used, or a policy that cannot be remembered.
    pub fn read(
        &self,
        provider: &Provider,
        granted: &Granted,
        output: &mut Output,
    ) -> Result<(Vec<Message>, Vec<Instruction>), Failure> {
        for text in granted.preflight.iter().flat_map(inspect::lines) {
            output.record(Event::Notice(&text));
        }
        if !self.untrusted && !self.trust.knows(&granted.policies) {
            Trust::update(&self.config.dirs.data, |trust| trust.remember(&granted.policies))?;
        }
        let (dirs, settings) = (&self.config.dirs, &self.config.settings);
        let runtime = Runtime {
            version: env!("CARGO_PKG_VERSION"),
            provider: &provider.name,
            model: self.model,
            provider_model: &provider.model,
            thinking: provider.thinking.name(),
            max_context_tokens: self.max_context_tokens,
            mcp_enabled: settings.mcp_enabled,
            diff_mode: settings.diff_mode.name(),
            config_dir: &dirs.config,
            granted,
        };
        let sources = Sources {
            dirs,
            granted,
            external_links: settings.skills_external_symlinks,
            untrusted: self.untrusted,
            changed: &self.trust.changed(),
        };
        let context = context::load(&sources, &runtime).map_err(|why| Failure::new(Kind::Usage, why))?;
        let notices = context.notices.iter();
        notices.for_each(|text| output.record(Event::Notice(text)));
        Ok((context.messages, context.instructions))
    }
}
