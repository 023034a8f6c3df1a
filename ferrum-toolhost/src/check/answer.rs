//! One question, judged as a session would, and what the verdict rests on.

use super::{Check, Terms, facts};
use crate::confine::view;
use crate::exec::syntax;
use crate::seal::{self, Decision, from_wire};
use ferrum_proto::reply::{Basis, Explanation, Refusal};
use ferrum_proto::request::{Act, Query};
use ferrum_proto::seal::{Decided, Promise};
use policy::basis::Subject;
use policy::change::{Change, Refused, proposals};
use policy::isolation::Walls;
use policy::{Action, Ground, Isolation, Network, ShellMode, Tier, Tool, Verdict, Wish};
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

type Answer = (Explanation, Option<Box<Basis>>);

impl Check {
    /// The session's judgement, for the tier and shell mode of the question.
    pub(super) fn explain(&mut self, query: &Query) -> Result<Answer, policy::NarrowError> {
        let asked = (query.tier.map(from_wire::tier), query.shell.map(from_wire::shell));
        let terms = self.terms(asked)?;
        let isolation = query
            .isolation
            .map_or(self.assumed.isolation, from_wire::isolation);
        let verdict = self.judge(&terms, isolation, query);
        let basis = query
            .detail
            .then(|| Box::new(self.basis(&terms, isolation, query, &verdict)));
        let answer = match verdict {
            Verdict::Allow => Explanation::Allowed,
            Verdict::Refuse(refusal) => Explanation::Refused(Refusal {
                code: refusal.code.into(),
                line: refusal.line,
                column: refusal.column,
                message: refusal.message,
                hint: refusal.hint,
            }),
        };
        Ok((answer, basis))
    }

    fn wish(&self, asked: super::Asked) -> Wish {
        let sealed = seal::wish(&self.seal.wish);
        Wish {
            tier: asked.0.or(sealed.tier),
            shell: asked.1.or(sealed.shell),
            ..sealed
        }
    }

    fn terms(&mut self, asked: super::Asked) -> Result<Rc<Terms>, policy::NarrowError> {
        if let Some(known) = self.grants.get(&asked) {
            return known.clone();
        }
        let inputs = &self.decision.inputs;
        let grant = policy::narrow(&inputs.user, &inputs.projects, &self.wish(asked));
        let terms = grant.map(|grant| Rc::new(self.terms_of(grant)));
        self.grants.insert(asked, terms.clone());
        terms
    }

    fn terms_of(&self, grant: policy::Grant) -> Terms {
        let decision = Decision {
            grant: grant.clone(),
            ..self.decision.clone()
        };
        let view = view::plan(&self.seal, &decision).entries;
        Terms { grant, view }
    }

    fn judge(&self, terms: &Terms, isolation: Isolation, query: &Query) -> Verdict {
        let ground = self.ground(&terms.grant, isolation);
        let judge = |action: &Action<'_>| policy::judge(&terms.grant, &ground, action);
        if let Some(tool) = Tool::from_name(&query.tool)
            && let refused @ Verdict::Refuse(_) = judge(&Action::Use { tool })
        {
            return refused;
        }
        match &query.act {
            Act::Run(command) => self.command(&terms.grant, &ground, command),
            Act::Read(path) => {
                let path = &facts::resolved(&ground.cwd, path);
                let seen = facts::seen(&terms.view, path);
                match judge(&Action::Read { path }) {
                    Verdict::Allow => judge(&Action::Look { path, seen }),
                    refused @ Verdict::Refuse(_) => refused,
                }
            }
            Act::Change(path) => {
                let (path, target) = facts::place(&ground.cwd, path);
                judge(&Action::Mutate { path: &path, target })
            }
            Act::Execute(path) => {
                let path = &facts::resolved(&ground.cwd, path);
                let seen = facts::seen(&terms.view, path);
                judge(&Action::Execute { path, seen })
            }
            Act::Connect { host, .. } => {
                let network = self.network(&terms.grant);
                judge(&Action::Connect { host, network })
            }
            Act::Server(name) => judge(&Action::Server { name }),
        }
    }

    fn network(&self, grant: &policy::Grant) -> Network {
        crate::report::network(grant.network(), self.assumed.mounts)
    }

    /// The facts of a session, as far as they are known without one.
    fn ground(&self, grant: &policy::Grant, isolation: Isolation) -> Ground {
        let places = &self.seal.charter.places;
        let home = fs::canonicalize(places.home.as_path()).unwrap_or_else(|_| places.home.to_path_buf());
        let mut private = Vec::new();
        if self.assumed.mounts && grant.tier() != Tier::Low {
            private.extend(["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from));
            private.push(home.clone());
        }
        Ground {
            cwd: self.decision.cwd.clone(),
            home,
            writable: grant.writable_roots().to_vec(),
            readable: grant.readable_roots().to_vec(),
            private,
            protected: [&places.config, &places.data].map(|p| p.to_path_buf()).into(),
            isolation,
        }
    }

    /// As `bash` would be answered: exposed, judged, read by bash.
    fn command(&self, grant: &policy::Grant, ground: &Ground, command: &str) -> Verdict {
        if command.is_empty() {
            let message = "the command is empty";
            return Verdict::Refuse(policy::Refusal::plain("malformed", message, ""));
        }
        let verdict = policy::judge(grant, ground, &Action::Run { command });
        let mode = crate::report::shell(grant.shell(), ground.isolation);
        let bash_alone = mode == ShellMode::Auto && grant.tier() == Tier::Medium;
        let refusal = match &verdict {
            Verdict::Allow => None,
            Verdict::Refuse(refusal) => Some(refusal),
        };
        if bash_alone || !syntax::is_asked(refusal) {
            return verdict;
        }
        match self.bash.borrow_mut().complaint(command) {
            Ok(complaint) if syntax::is_readable(complaint.is_empty(), &complaint) => verdict,
            Ok(complaint) => Verdict::Refuse(syntax::refusal(&complaint)),
            Err(e) => Verdict::Refuse(syntax::refusal(&format!("bash -n: {e}"))),
        }
    }

    fn basis(&self, terms: &Terms, isolation: Isolation, query: &Query, verdict: &Verdict) -> Basis {
        let code = match verdict {
            Verdict::Allow => "",
            Verdict::Refuse(refusal) => refusal.code,
        };
        let row = policy::basis::of(subject(&query.act), code);
        let decided = |key: &str, sources: &[policy::origin::Source]| Decided {
            key: key.to_owned(),
            origins: (sources.iter())
                .map(|source| seal::origin(&self.seal, source))
                .collect(),
        };
        let origins = if code == "tool" {
            // Of all who took tools away, the one who took this.
            let mut removed = terms.grant.tools_removed().iter();
            let this = removed.find(|removed| removed.tool == needed(query));
            this.map(|removed| vec![decided("tools", std::slice::from_ref(&removed.source))])
                .unwrap_or_default()
        } else {
            let all = terms.grant.origins().iter();
            all.filter(|one| row.keys.contains(&one.key))
                .map(|one| decided(one.key, &one.sources))
                .collect()
        };
        Basis {
            rule: row.rule.to_owned(),
            origins,
            promises: self.promises(&terms.grant, row.promises),
            change: if code.is_empty() {
                String::new()
            } else {
                self.change(terms, isolation, query, code)
            },
        }
    }

    /// What holds the named promises in a session of this machine.
    fn promises(&self, grant: &policy::Grant, names: &[&str]) -> Vec<Promise> {
        let (mounts, network) = (self.assumed.mounts, self.network(grant));
        let low = grant.tier() == Tier::Low;
        let walls = Walls {
            landlock_abi: self.assumed.landlock_abi,
            seccomp: true,
            no_capabilities: true,
            mount_view: mounts,
            pid_namespace: mounts && !low,
            network_namespace: mounts && network != Network::Full,
            socket_filter: network == Network::None,
            // Known only to a launcher that has made one.
            cgroup: false,
            proc_read_only: true,
            process_limit: mounts && !low,
        };
        let (_, promises) = policy::isolation::judge(grant.tier(), network, &walls);
        let asked = promises
            .into_iter()
            .filter(|promise| names.contains(&promise.name));
        crate::report::promises(asked.collect())
    }

    /// The first proposal under which the same act passes.
    fn change(&self, terms: &Terms, isolation: Isolation, query: &Query, code: &str) -> String {
        let ground = self.ground(&terms.grant, isolation);
        let places = match &query.act {
            Act::Run(command) => facts::places(facts::words(command), &ground),
            Act::Read(path) | Act::Change(path) | Act::Execute(path) => {
                facts::places([path.as_str()].into_iter(), &ground)
            }
            Act::Connect { .. } | Act::Server(_) => Vec::new(),
        };
        let refused = Refused {
            subject: subject(&query.act),
            code,
            name: needed(query),
            places: &places,
        };
        let inputs = &self.decision.inputs;
        let wish = self.wish((query.tier.map(from_wire::tier), query.shell.map(from_wire::shell)));
        let passes = |change: &Change| {
            let grant = policy::narrow(&change.user, &change.projects, &change.wish);
            grant.is_ok_and(|grant| {
                let terms = self.terms_of(grant);
                self.judge(&terms, isolation, query) == Verdict::Allow
            })
        };
        let proposals = proposals(&inputs.user, &inputs.projects, &wish, &terms.grant, refused);
        let first = proposals.into_iter().find(passes);
        first.map(|change| change.words()).unwrap_or_default()
    }
}

/// The tool or server that the act needs.
fn needed(query: &Query) -> &str {
    match &query.act {
        Act::Execute(_) | Act::Connect { .. } => Tool::Bash.name(),
        Act::Server(name) => name,
        Act::Run(_) | Act::Read(_) | Act::Change(_) => &query.tool,
    }
}

fn subject(act: &Act) -> Subject {
    match act {
        Act::Run(_) => Subject::Run,
        Act::Read(_) => Subject::Read,
        Act::Change(_) => Subject::Change,
        Act::Connect { .. } => Subject::Connect,
        Act::Execute(_) => Subject::Execute,
        Act::Server(_) => Subject::Server,
    }
}
