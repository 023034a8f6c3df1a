//! The form for a person: one screen, the most important first.

use super::Shown;
use super::values::{Setting, path, settings, words};
use crate::mode::policy::check::{is_met, unmet};
use crate::ui::paint::Paint;
use ferrum_proto::charter::Origin;
use ferrum_proto::seal::{Access, Ready, ViewEntry};
use ferrum_proto::terms::Tier;
use serde_json::Value;
use std::fmt::Write;

/// Characters of the paths of one group of the view.
const PATHS_CHARS_MAX: usize = 60;
/// Lines of protected places; the rest is in the JSON form.
const PROTECTED_LINES_MAX: usize = 4;
/// Width of the first column.
const LABEL: usize = 17;
/// Least width of the second one, so that short remarks stand below each other.
const VALUE: usize = 10;

struct Screen<'a> {
    shown: &'a Shown,
    paint: Paint,
    out: String,
}

pub(super) fn screen(shown: &Shown, paint: Paint) -> String {
    let mut screen = Screen {
        shown,
        paint,
        out: String::new(),
    };
    screen.head();
    screen.values();
    screen.tools();
    match &shown.ready {
        Ok(ready) => screen.walls(ready),
        Err(cause) => {
            let line = format!("{cause}");
            screen.line("walls", &paint.bad("did not come up"), &line);
        }
    }
    screen.front();
    screen.out
}

impl Screen<'_> {
    /// Writing to a String cannot fail.
    fn line(&mut self, label: &str, value: &str, remark: &str) {
        let label = self.paint.faint(&format!("{label:LABEL$}"));
        let remark = self.paint.faint(remark);
        let _ = writeln!(self.out, "{label} {value:VALUE$}  {remark}");
        // No blanks at the end of a line.
        let kept = self.out.trim_end().len();
        self.out.truncate(kept);
        self.out.push('\n');
    }

    fn head(&mut self) {
        let granted = &self.shown.granted;
        let title = format!("policy of {}", path(&granted.cwd));
        let title = self.paint.strong(&title);
        let _ = writeln!(self.out, "{title}");
        let files: Vec<String> = granted.project_files.iter().map(path).collect();
        let files = if files.is_empty() {
            "none".to_owned()
        } else {
            files.join(", ")
        };
        self.line("project files", &self.paint.text(&files), "");
    }

    /// What matters always, and of the rest what somebody set.
    fn values(&mut self) {
        const ALWAYS: [&str; 7] = [
            "safety",
            "safety.floor",
            "isolation.require",
            "tools.network",
            "tools.shell",
            "tools.writable_roots",
            "max_tool_rounds",
        ];
        // These have lines of their own.
        const APART: [&str; 1] = ["tools"];
        for setting in settings(self.shown) {
            let set = setting.origins.iter().any(|origin| *origin != Origin::Default);
            if !APART.contains(&setting.key) && (set || ALWAYS.contains(&setting.key)) {
                self.value(&setting);
            }
        }
    }

    fn value(&mut self, setting: &Setting) {
        let label = setting.key.strip_prefix("tools.").unwrap_or(setting.key);
        let value = match (&setting.value, setting.key) {
            (Value::Number(number), "max_tool_rounds") if number.as_u64() == Some(0) => "adaptive".to_owned(),
            (Value::String(text), _) => text.clone(),
            (Value::Array(items), _) if items.is_empty() => "none".to_owned(),
            (Value::Array(items), _) => {
                let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                texts.join(" ")
            }
            (Value::Null, _) => "all".to_owned(),
            (other, _) => other.to_string(),
        };
        let origins: Vec<String> = setting.origins.iter().map(words).collect();
        let effective = self.effective(setting, &value);
        self.line(label, &effective, &origins.join(", "));
    }

    /// The value, with what is in force where that is less.
    fn effective(&self, setting: &Setting, value: &str) -> String {
        let in_force = self
            .shown
            .ready
            .as_ref()
            .ok()
            .and_then(|ready| match setting.key {
                "tools.network" => Some(ready.network.name()),
                "tools.shell" => Some(ready.shell.name()),
                "tools.writable_roots" if self.shown.granted.tier == Tier::High => Some("none"),
                _ => None,
            });
        let value = self.paint.text(value);
        match in_force.filter(|in_force| *in_force != value) {
            Some(in_force) => format!(
                "{} {}",
                value,
                self.paint.warning(&format!("(in force: {in_force})"))
            ),
            None => value,
        }
    }

    fn tools(&mut self) {
        let granted = &self.shown.granted;
        self.line("tools", &granted.tools.join(" "), "");
        for removed in &granted.tools_removed {
            let reason = format!("{} ({})", removed.reason, words(&removed.origin));
            let tool = self.paint.warning(&removed.tool);
            self.line("  removed", &tool, &reason);
        }
    }

    fn walls(&mut self, ready: &Ready) {
        let granted = &self.shown.granted;
        let isolation = match ready.isolation.name() {
            "full" => self.paint.good("full"),
            other => self.paint.warning(other),
        };
        let remark = format!(
            "required: {}; containment {}",
            granted.require.name(),
            ready.containment.name()
        );
        self.line("isolation", &isolation, &remark);
        let there = ready.walls.iter().filter(|wall| wall.in_force);
        let there: Vec<&str> = there.map(|wall| wall.name.as_str()).collect();
        self.line("  in force", &there.join(", "), "");
        for wall in ready.walls.iter().filter(|wall| !wall.in_force) {
            let name = self.paint.warning(&wall.name);
            self.line("  not there", &name, &wall.detail);
        }
        self.promises(ready);
        self.view(ready);
        self.protected(ready);
        let limits: Vec<String> = ready.limits.iter().map(limit).collect();
        self.line("limits", &limits.join(", "), "");
        let names = self.paint.text(&clipped(&ready.environment, 2 * PATHS_CHARS_MAX));
        self.line("environment", &names, "");
    }

    fn promises(&mut self, ready: &Ready) {
        for promise in &ready.promises {
            if promise.held_by.is_empty() {
                let name = self.paint.bad(&format!("{} is not held", promise.name));
                self.line("  promise", &name, "a command may do it");
            } else {
                self.line("  promise", &promise.name, &promise.held_by.join(", "));
            }
        }
    }

    /// Lines of the same kind are one line.
    fn view(&mut self, ready: &Ready) {
        self.line(
            "view",
            "what is not named here is not there",
            "access, paths, why, held by",
        );
        let mut groups: Vec<(&ViewEntry, Vec<String>)> = Vec::new();
        for entry in &ready.view {
            let kind = |other: &ViewEntry| (other.access, other.why.clone(), other.held_by.clone());
            match groups.iter_mut().find(|(first, _)| kind(first) == kind(entry)) {
                Some((_, paths)) => paths.push(path(&entry.path)),
                None => groups.push((entry, vec![path(&entry.path)])),
            }
        }
        for (entry, paths) in groups {
            let access = match entry.access {
                Access::None => "none",
                Access::Read => "read",
                Access::ReadExec => "read+exec",
                Access::Write => "write",
            };
            let held = match entry.held_by.as_slice() {
                [] => "nothing".to_owned(),
                some => some.join("+"),
            };
            let paths = self.paint.text(&clipped(&paths, PATHS_CHARS_MAX));
            self.line(&format!("  {access}"), &paths, &format!("{}; {held}", entry.why));
        }
    }

    fn protected(&mut self, ready: &Ready) {
        for protected in ready.protected.iter().take(PROTECTED_LINES_MAX) {
            let place = self.paint.text(&path(&protected.path));
            let held = protected.held_by.join("+");
            self.line("protected", &place, &format!("{}; {held}", protected.why));
        }
        let more = ready.protected.len().saturating_sub(PROTECTED_LINES_MAX);
        if more > 0 {
            self.line("", &format!("and {more} more"), "--json has all");
        }
    }

    /// What belongs to the front.
    fn front(&mut self) {
        for (name, isolation, why_not) in self.shown.servers() {
            let name = self.paint.text(name);
            let remark = match why_not {
                Some(why) => format!("left out: {why}"),
                None => format!("isolation {isolation}; this version starts no servers"),
            };
            self.line("mcp server", &name, &remark);
        }
        let shown = self.shown;
        for skill in &shown.skills {
            let name = self.paint.text(&skill.name);
            let file = skill.file.display();
            let remark = match skill.trusted {
                true => format!("{file}"),
                false => format!("{file}; information, not instructions, until `ferrum trust`"),
            };
            self.line("skill", &name, &remark);
        }
        let unmet_ones = shown.expectations.iter().filter(|one| !is_met(one));
        for one in unmet_ones {
            let text = self.paint.bad(&unmet(one));
            self.line("expectation", &text, "");
        }
        let walls = shown.ready.as_ref().map(|ready| ready.notices.as_slice());
        let all = shown.config.notices.iter().chain(&shown.granted.notices);
        for notice in all.chain(walls.unwrap_or_default()) {
            let text = self.paint.warning(notice);
            self.line("note", &text, "");
        }
    }
}

fn limit(limit: &ferrum_proto::seal::Limit) -> String {
    let held = if limit.held_by.is_empty() {
        "not held"
    } else {
        &limit.held_by
    };
    match limit.value {
        0 => format!("{} none", limit.name),
        value => format!("{} {value} ({held})", limit.name),
    }
}

/// As many words as fit, and how many there are beside them.
fn clipped(words: &[String], most: usize) -> String {
    let mut text = String::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 && text.chars().count() + word.chars().count() > most {
            let _ = write!(text, " and {} more", words.len() - index);
            break;
        }
        if index > 0 {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}
