//! What a case expects, held against what happened. Every key is known here or the case fails.

use crate::answer::Answer;
use crate::files::{self, Before};
use crate::ground::Ground;
use crate::keys::Keys;
use crate::lists;
use crate::observe;
use crate::product::Ran;
use crate::setup::bytes_of_hex;
use toml::Value;

/// Everything that is known when a case is judged.
pub struct Scene<'a> {
    pub ran: &'a Ran,
    pub before: &'a Before,
    pub ground: &'a Ground,
}

type Problems = Vec<String>;

impl Scene<'_> {
    /// All problems, in the case's own words; empty where it holds. A case with a second right
    /// answer holds where either does.
    pub fn problems(&self, expect: &Keys) -> Problems {
        let mut first = expect.clone();
        let files = first.take("or_files");
        let result = first.take("or_result").or_else(|| first.take("or_outcome"));
        let problems = self.judge(first.clone()).unwrap_or_else(|problem| vec![problem]);
        if problems.is_empty() || (files.is_none() && result.is_none()) {
            return problems;
        }
        let mut second = first.rest().collect::<toml::Table>();
        for key in ["result", "outcome", "one_of", "error_mentions", "files"] {
            second.remove(key);
        }
        second.insert(
            "one_of".to_owned(),
            Value::Array(vec![result.unwrap_or_else(|| "ok".into())]),
        );
        second.extend(files.map(|files| ("files".to_owned(), files)));
        match self.judge(second.into()) {
            Ok(others) if others.is_empty() => Vec::new(),
            _ => problems,
        }
    }

    fn judge(&self, mut expect: Keys) -> Result<Problems, String> {
        let mut problems = Vec::new();
        if let Some(problem) = expect.text("broken")? {
            problems.push(problem);
        }
        self.ends(&mut expect, &mut problems)?;
        self.command(&mut expect, &mut problems)?;
        self.text(&mut expect, &mut problems)?;
        self.lists(&mut expect, &mut problems)?;
        self.files(&mut expect, &mut problems)?;
        self.limits(&mut expect, &mut problems)?;
        self.outside(&mut expect, &mut problems)?;
        for (condition, holds) in self.conditions() {
            if let Some(part) = expect.part(&format!("if_{condition}"))?
                && holds
            {
                problems.extend(self.judge(part)?);
            }
        }
        expect.nothing_left("expect")?;
        Ok(problems)
    }

    fn conditions(&self) -> [(&'static str, bool); 6] {
        ["ok", "error", "rejected", "refused", "exited", "timed-out"].map(|word| (word, self.is(word)))
    }

    fn is(&self, word: &str) -> bool {
        self.ran.answers.iter().all(|answer| answer.is(word))
    }

    fn whole_text(&self) -> String {
        self.ran
            .answers
            .iter()
            .map(|answer| answer.text.as_str())
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn ends(&self, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        let words = ["result", "outcome", "one_of"].map(|key| expect.texts(key));
        for words in words {
            let Some(words) = words? else { continue };
            if !words.iter().any(|word| self.is(word)) {
                problems.push(format!(
                    "expected {}, got: {}",
                    words.join(" or "),
                    clip(&self.whole_text())
                ));
            }
        }
        if let Some(wanted) = expect.flag("is_error")? {
            let flags: Vec<_> = self.ran.answers.iter().map(|answer| answer.is_error).collect();
            if flags.iter().any(|flag| *flag != Some(wanted)) {
                problems.push(format!("is_error should be {wanted}: {flags:?}"));
            }
        }
        Ok(())
    }

    fn command(&self, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        let Some(answer) = self.ran.answers.first() else {
            return Ok(());
        };
        let mut is = |what: &str, wanted: String, got: String| {
            if wanted != got {
                problems.push(format!("{what}: expected {wanted}, got {got}"));
            }
        };
        if let Some(status) = expect.whole("status")? {
            is(
                "status",
                format!("{:?}", Some(status)),
                format!("{:?}", answer.status()),
            );
        }
        if let Some(signal) = expect.whole("signal")? {
            is(
                "signal",
                format!("{:?}", Some(signal)),
                format!("{:?}", answer.signal()),
            );
        }
        for (key, got) in [("stdout", answer.stdout()), ("stderr", answer.stderr())] {
            if let Some(wanted) = expect.text(key)? {
                is(
                    key,
                    format!("{:?}", self.ground.fill(&wanted)),
                    format!("{got:?}"),
                );
            }
        }
        if let Some(complete) = expect.flag("output_complete")? {
            is(
                "output_incomplete",
                (!complete).to_string(),
                answer.line("output_incomplete").unwrap_or("?").to_owned(),
            );
        }
        if let Some(status) = expect.whole("status_not")?
            && answer.status().is_none_or(|got| got == status)
        {
            problems.push(format!("status is {:?}", answer.status()));
        }
        self.output(answer, expect, problems)
    }

    fn output(&self, answer: &Answer, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        let streams = [("stdout", answer.stdout()), ("stderr", answer.stderr())];
        for (name, got) in &streams {
            for text in expect.texts(&format!("{name}_contains"))?.unwrap_or_default() {
                if !got.contains(&self.ground.fill(&text)) {
                    problems.push(format!("{name} lacks {text:?}: {}", clip(got)));
                }
            }
            for text in expect.texts(&format!("{name}_not_contains"))?.unwrap_or_default() {
                if got.contains(&self.ground.fill(&text)) {
                    problems.push(format!("{name} holds {text:?}"));
                }
            }
            if let Some(pattern) = expect.text(&format!("{name}_matches"))? {
                let pattern = regex::Regex::new(&pattern).map_err(|e| e.to_string())?;
                if !pattern.is_match(got) {
                    problems.push(format!("{name} does not match {pattern}: {got:?}"));
                }
            }
        }
        if let Some(word) = expect.text("residual")? {
            let told = answer
                .line("residual_descendants")
                .is_some_and(|residual| residual != "false")
                || answer
                    .line("ended_with_call")
                    .is_some_and(|ended| !ended.starts_with('0'));
            match word.as_str() {
                "reported" if told => {}
                "reported" => problems.push("what was left behind is not reported".to_owned()),
                other => return Err(format!("the runner cannot express residual {other}")),
            }
        }
        Ok(())
    }

    fn text(&self, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        let text = self.whole_text();
        let lower = text.to_lowercase();
        let fill = |list: Vec<String>| {
            list.into_iter()
                .map(|word| self.ground.fill(&word))
                .collect::<Vec<_>>()
        };
        let mut need = |good: bool, what: String| {
            if !good {
                problems.push(format!("{what}: {}", clip(&text)));
            }
        };
        if let Some(words) = expect.texts("error_mentions")?.map(fill) {
            need(
                words.iter().any(|word| lower.contains(&word.to_lowercase())),
                format!("none of {words:?} is said"),
            );
        }
        for word in expect.texts("error_not")?.map(fill).unwrap_or_default() {
            need(!lower.contains(&word.to_lowercase()), format!("{word:?} is said"));
        }
        for word in expect.texts("text_contains")?.map(fill).unwrap_or_default() {
            need(text.contains(&word), format!("{word:?} is missing"));
        }
        if let Some(words) = expect.texts("text_contains_any")?.map(fill) {
            need(
                words.iter().any(|word| lower.contains(&word.to_lowercase())),
                format!("none of {words:?} is there"),
            );
        }
        for word in expect.texts("text_not_contains")?.map(fill).unwrap_or_default() {
            need(!text.contains(&word), format!("{word:?} is there"));
        }
        if let Some(most) = expect.number("text_max_bytes")? {
            need(size(text.len()) <= most, format!("{} bytes of text", text.len()));
        }
        if expect.flag("result_is_valid_utf8")? == Some(true) {
            need(
                std::str::from_utf8(&self.ran.seen.stdout).is_ok(),
                "output is not UTF-8".to_owned(),
            );
        }
        Ok(())
    }

    fn lists(&self, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        let text = self.whole_text();
        let matches = lists::matches(&text);
        let entries = lists::entries(&text);
        if let Some(Value::Array(items)) = expect.take("matches") {
            let wanted = items
                .iter()
                .map(|item| Some((item.get(0)?.as_str()?.to_owned(), item.get(1)?.as_integer()?)))
                .collect::<Option<_>>()
                .ok_or("matches must be a list of [path, line]")?;
            if matches != wanted {
                problems.push(format!("matches {wanted:?} expected: {}", clip(&text)));
            }
        }
        if let Some(mut paths) = expect.texts("paths")? {
            let mut found = entries.clone();
            paths.sort();
            found.sort();
            if found != paths {
                problems.push(format!("paths {paths:?} expected: {}", clip(&text)));
            }
        }
        for (key, count, exact) in [
            ("match_count", matches.len(), true),
            ("entry_count", entries.len(), true),
            ("path_count", entries.len(), true),
            ("path_count_max", entries.len(), false),
            ("match_count_max", matches.len(), false),
            ("entry_count_max", entries.len(), false),
        ] {
            if let Some(wanted) = expect.number(key)?
                && (size(count) > wanted || (exact && size(count) < wanted))
            {
                problems.push(format!("{key} is {count}, not {wanted}: {}", clip(&text)));
            }
        }
        Ok(())
    }

    fn files(&self, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        let always = expect.tables("files")?;
        let if_done = expect.tables("files_if_ok")?.filter(|_| self.is("ok"));
        let if_not = expect.tables("files_if_error")?.filter(|_| self.is("error"));
        for list in [always, if_done, if_not].into_iter().flatten() {
            problems.extend(files::check(list, self.before, self.ground));
        }
        for key in ["files_absent", "never_files"] {
            for name in expect.texts(key)?.unwrap_or_default() {
                if self.ground.path(&name).symlink_metadata().is_ok() {
                    problems.push(format!("{name} is there"));
                }
            }
        }
        let content = |name: &str| std::fs::read_to_string(self.ground.path(name)).unwrap_or_default();
        for (name, words) in expect.part("file_has")?.unwrap_or_default().rest() {
            for word in words.as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !content(&name).contains(word) {
                    problems.push(format!("{name} lacks {word:?}"));
                }
            }
        }
        for (name, count) in expect.part("file_lines")?.unwrap_or_default().rest() {
            let lines = content(&name).lines().count();
            if count.as_integer() != i64::try_from(lines).ok() {
                problems.push(format!("{name} has {lines} lines, not {count}"));
            }
        }
        // Held against every case already: see `verdict.rs`.
        expect.flag("no_leftovers")?;
        Ok(())
    }

    fn limits(&self, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        let seen = &self.ran.seen;
        if let Some(most) = expect.number("within_s")?
            && seen.elapsed.as_secs_f64() > most
        {
            problems.push(format!("took {:.1} s, not {most}", seen.elapsed.as_secs_f64()));
        }
        if let Some(most) = expect.number("rss_mb_below")? {
            let megabytes = seen.memory >> 20;
            if size(usize::try_from(megabytes).unwrap_or(usize::MAX)) >= most {
                problems.push(format!("{megabytes} MiB resident, not below {most}"));
            }
        }
        expect.flag("no_panic")?;
        for name in expect.texts("no_process_named")?.unwrap_or_default() {
            let left = observe::named(&name);
            if !left.is_empty() {
                problems.push(format!("{name} still runs: {left:?}"));
            }
        }
        Ok(())
    }

    fn outside(&self, expect: &mut Keys, problems: &mut Problems) -> Result<(), String> {
        let shown = &self.ran.shown;
        let holds = |bytes: &[u8]| shown.windows(bytes.len().max(1)).any(|window| window == bytes);
        for (key, wanted) in [("terminal_not_contains", false), ("terminal_contains", true)] {
            for text in expect.texts(key)?.unwrap_or_default() {
                if holds(text.as_bytes()) != wanted {
                    problems.push(format!(
                        "{key} {text:?}: {}",
                        clip(&String::from_utf8_lossy(shown))
                    ));
                }
            }
            for hex in expect.texts(&format!("{key}_hex"))?.unwrap_or_default() {
                if holds(&bytes_of_hex(&hex)?) != wanted {
                    problems.push(format!(
                        "{key}_hex {hex}: {}",
                        clip(&String::from_utf8_lossy(shown))
                    ));
                }
            }
        }
        let Some(mut then) = expect.part("then")? else {
            return Ok(());
        };
        for key in ["sh", "args"] {
            then.take(key);
        }
        let answer = self.ran.then.clone().ok_or("there was no second call")?;
        let ran = Ran {
            answers: vec![answer],
            ..Ran::default()
        };
        problems.extend(Scene { ran: &ran, ..*self }.judge(then)?);
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes of a case are far below 2^52")]
fn size(count: usize) -> f64 {
    count as f64
}

fn clip(text: &str) -> String {
    let end = text.floor_char_boundary(1_200);
    format!("\n| {}", text[..end].replace('\n', "\n| "))
}
