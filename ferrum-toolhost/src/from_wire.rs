//! Wire request → checked request. The only maker of inner requests: every one of them holds a
//! [`PathText`] or a [`CommandText`], which nothing else can construct. After this nobody checks
//! sizes, ranges or NUL bytes again.
//!
//! Errors are sentences for the model and name the argument.

use ferrum_proto::request as wire;
use std::time::Duration;

/// Longest path text, in bytes: the kernel's own limit, so a longer one cannot name anything.
const PATH_BYTES_MAX: usize = 4096;
/// Entries or matches that one call may ask for; the results stay readable up to there.
const LIMIT_MAX: u64 = 10_000;
/// Lines of context on each side of a match.
const CONTEXT_LINES_MAX: u32 = 20;
/// Longest time of one command, in seconds.
const TIMEOUT_SECONDS_MAX: u32 = 600;
/// Time of one command where none is given, in seconds.
const TIMEOUT_SECONDS_DEFAULT: u32 = 120;
/// Longest single pause of `wait`, in seconds.
const WAIT_SECONDS_MAX: u32 = 1800;
/// Longest polling of `wait`, in seconds: seven days.
const MAX_WAIT_SECONDS_MAX: u32 = 7 * 24 * 3600;
/// Length of a regular expression, in characters, so that compiling it stays quick.
const REGEX_CHARS_MAX: usize = 1024;
/// Length of a glob, a name or an extension, in characters.
const GLOB_CHARS_MAX: usize = 1024;
/// Edits in one call; more are better written as a whole file.
const EDITS_MAX: usize = 1000;

/// A path as the model wrote it: not empty, no NUL, at most 4,096 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathText(String);

impl PathText {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A command as the model wrote it: not empty, no NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandText(String);

#[cfg(test)]
impl PathText {
    /// For tests of what comes after this module.
    pub(crate) fn checked(text: &str) -> Self {
        path(text.to_owned()).expect("a good path")
    }
}

impl CommandText {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One checked call.
#[derive(Debug, Clone)]
pub enum Request {
    Read(Read),
    Write(Write),
    Edit(Edit),
    Ls(Ls),
    Find(Find),
    Grep(Grep),
    Bash(Bash),
    Wait(Wait),
}

#[derive(Debug, Clone)]
pub struct Read {
    pub path: PathText,
    /// First line, from 1.
    pub offset: u64,
    pub limit: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct Write {
    pub path: PathText,
    pub content: String,
}

#[derive(Debug, Clone)]
pub struct Edit {
    pub path: PathText,
    /// At least one.
    pub edits: Vec<Replacement>,
}

#[derive(Debug, Clone)]
pub struct Replacement {
    /// Not empty.
    pub old: String,
    /// Not equal to `old`.
    pub new: String,
}

#[derive(Debug, Clone)]
pub struct Ls {
    pub path: PathText,
    pub limit: usize,
}

#[derive(Debug, Clone)]
pub struct Find {
    pub path: PathText,
    pub pattern: Option<String>,
    pub name: Option<String>,
    /// Without its dot.
    pub extension: Option<String>,
    pub limit: usize,
}

#[derive(Debug, Clone)]
pub struct Grep {
    pub path: PathText,
    pub pattern: String,
    pub glob: Option<String>,
    pub ignore_case: bool,
    pub literal: bool,
    pub context: usize,
    pub limit: usize,
}

#[derive(Debug, Clone)]
pub struct Bash {
    pub command: CommandText,
    pub timeout: Duration,
}

#[derive(Debug, Clone)]
pub struct Wait {
    pub pause: Duration,
    pub command: CommandText,
    pub timeout: Duration,
    pub until: Option<Until>,
}

/// Goes on until the output matches or the time is over.
#[derive(Debug, Clone)]
pub struct Until {
    pub matches: regex::bytes::Regex,
    pub max_wait: Duration,
}

/// Checks one call.
///
/// # Errors
/// A sentence for the model that names the argument.
pub fn from_wire(request: wire::ToolRequest) -> Result<Request, String> {
    match request {
        wire::ToolRequest::Read(call) => read(call).map(Request::Read),
        wire::ToolRequest::Write(call) => write(call).map(Request::Write),
        wire::ToolRequest::Edit(call) => edit(call).map(Request::Edit),
        wire::ToolRequest::Ls(call) => ls(call).map(Request::Ls),
        wire::ToolRequest::Find(call) => find(call).map(Request::Find),
        wire::ToolRequest::Grep(call) => grep(call).map(Request::Grep),
        wire::ToolRequest::Bash(call) => bash(call).map(Request::Bash),
        wire::ToolRequest::Wait(call) => wait(call).map(Request::Wait),
    }
}

fn read(call: wire::Read) -> Result<Read, String> {
    let offset = call.offset.unwrap_or(1);
    if offset == 0 {
        return Err("offset counts lines from 1, so 0 is no line".to_owned());
    }
    if call.limit == Some(0) {
        return Err("limit must be at least 1".to_owned());
    }
    Ok(Read {
        path: path(call.path)?,
        offset,
        limit: call.limit,
    })
}

fn write(call: wire::Write) -> Result<Write, String> {
    Ok(Write {
        path: path(call.path)?,
        content: call.content,
    })
}

fn edit(call: wire::Edit) -> Result<Edit, String> {
    if call.edits.is_empty() {
        return Err("edits must hold at least one edit".to_owned());
    }
    if call.edits.len() > EDITS_MAX {
        return Err(format!(
            "edits holds {} edits; at most {EDITS_MAX} are possible",
            call.edits.len()
        ));
    }
    let mut edits = Vec::with_capacity(call.edits.len());
    for (index, edit) in call.edits.into_iter().enumerate() {
        if edit.old_text.is_empty() {
            return Err(format!(
                "edits[{index}].old_text is empty; name the text to replace"
            ));
        }
        if edit.old_text == edit.new_text {
            return Err(format!(
                "edits[{index}] makes no change: old_text and new_text are identical"
            ));
        }
        edits.push(Replacement {
            old: edit.old_text,
            new: edit.new_text,
        });
    }
    Ok(Edit {
        path: path(call.path)?,
        edits,
    })
}

fn ls(call: wire::Ls) -> Result<Ls, String> {
    Ok(Ls {
        path: path(call.path)?,
        limit: limit(call.limit, 500)?,
    })
}

fn find(call: wire::Find) -> Result<Find, String> {
    let extension = call
        .extension
        .map(|text| text.strip_prefix('.').map(str::to_owned).unwrap_or(text));
    Ok(Find {
        path: path(call.path)?,
        pattern: call.pattern.map(|text| glob("pattern", text)).transpose()?,
        name: call.name.map(|text| glob("name", text)).transpose()?,
        extension: extension.map(|text| glob("extension", text)).transpose()?,
        limit: limit(call.limit, 1000)?,
    })
}

fn grep(call: wire::Grep) -> Result<Grep, String> {
    if call.pattern.is_empty() {
        return Err("pattern is empty; it would match every line".to_owned());
    }
    if call.context > CONTEXT_LINES_MAX {
        return Err(format!(
            "context must be 0 to {CONTEXT_LINES_MAX}, not {}",
            call.context
        ));
    }
    Ok(Grep {
        path: path(call.path)?,
        pattern: call.pattern,
        glob: call.glob.map(|text| glob("glob", text)).transpose()?,
        ignore_case: call.ignore_case,
        literal: call.literal,
        context: call.context as usize,
        limit: limit(call.limit, 100)?,
    })
}

fn bash(call: wire::Bash) -> Result<Bash, String> {
    Ok(Bash {
        command: command(call.command)?,
        timeout: timeout(call.timeout_seconds)?,
    })
}

fn wait(call: wire::Wait) -> Result<Wait, String> {
    let pause = seconds("seconds", call.seconds, WAIT_SECONDS_MAX)?;
    let until = match (call.until, call.max_wait_seconds) {
        (None, None) => None,
        (Some(_), None) => return Err("until needs max_wait_seconds, the longest time to go on".to_owned()),
        (None, Some(_)) => return Err("max_wait_seconds needs until, the output to wait for".to_owned()),
        (Some(until), Some(max_wait)) => Some(Until {
            matches: output_regex(&until.output_matches)?,
            max_wait: seconds("max_wait_seconds", max_wait, MAX_WAIT_SECONDS_MAX)?,
        }),
    };
    Ok(Wait {
        pause,
        command: command(call.command)?,
        timeout: timeout(call.timeout_seconds)?,
        until,
    })
}

fn path(text: String) -> Result<PathText, String> {
    if text.is_empty() {
        return Err("path is empty; name a file or directory, \".\" for the working directory".to_owned());
    }
    if text.contains('\0') {
        return Err("path holds a NUL character, which no file name can".to_owned());
    }
    if text.len() >= PATH_BYTES_MAX {
        return Err(format!(
            "path is {} bytes long; the system takes less than {PATH_BYTES_MAX}",
            text.len()
        ));
    }
    Ok(PathText(text))
}

fn command(text: String) -> Result<CommandText, String> {
    if text.trim().is_empty() {
        return Err("command is empty".to_owned());
    }
    if text.contains('\0') {
        return Err("command holds a NUL character, which no shell can read".to_owned());
    }
    Ok(CommandText(text))
}

fn glob(argument: &str, text: String) -> Result<String, String> {
    if text.is_empty() {
        return Err(format!("{argument} is empty; leave it out to match every file"));
    }
    if text.contains('\0') {
        return Err(format!(
            "{argument} holds a NUL character, which no file name can"
        ));
    }
    if text.chars().count() > GLOB_CHARS_MAX {
        return Err(format!("{argument} is longer than {GLOB_CHARS_MAX} characters"));
    }
    Ok(text)
}

fn limit(asked: Option<u64>, default: usize) -> Result<usize, String> {
    match asked {
        None => Ok(default),
        Some(n @ 1..=LIMIT_MAX) => usize::try_from(n).map_err(|_| "limit is too large".to_owned()),
        Some(n) => Err(format!("limit must be 1 to {LIMIT_MAX}, not {n}")),
    }
}

fn seconds(argument: &str, value: u32, max: u32) -> Result<Duration, String> {
    if (1..=max).contains(&value) {
        Ok(Duration::from_secs(u64::from(value)))
    } else {
        Err(format!("{argument} must be 1 to {max}, not {value}"))
    }
}

fn timeout(asked: Option<u32>) -> Result<Duration, String> {
    seconds(
        "timeout_seconds",
        asked.unwrap_or(TIMEOUT_SECONDS_DEFAULT),
        TIMEOUT_SECONDS_MAX,
    )
}

fn output_regex(text: &str) -> Result<regex::bytes::Regex, String> {
    if text.is_empty() {
        return Err("until.output_matches is empty; it would match at once".to_owned());
    }
    if text.chars().count() > REGEX_CHARS_MAX {
        return Err(format!(
            "until.output_matches is longer than {REGEX_CHARS_MAX} characters"
        ));
    }
    regex::bytes::Regex::new(text)
        .map_err(|error| format!("until.output_matches is not a regular expression: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit_of(old: &str, new: &str) -> wire::ToolRequest {
        let edits = vec![wire::Replacement {
            old_text: old.into(),
            new_text: new.into(),
        }];
        wire::ToolRequest::Edit(wire::Edit {
            path: "a".into(),
            edits,
        })
    }

    fn wait_of(seconds: u32, until: Option<&str>, max_wait_seconds: Option<u32>) -> wire::ToolRequest {
        wire::ToolRequest::Wait(wire::Wait {
            seconds,
            command: "true".into(),
            timeout_seconds: None,
            until: until.map(|text| wire::Until {
                output_matches: text.into(),
            }),
            max_wait_seconds,
        })
    }

    fn grep_of(context: u32, limit: Option<u64>) -> wire::ToolRequest {
        wire::ToolRequest::Grep(wire::Grep {
            pattern: "x".into(),
            path: ".".into(),
            glob: None,
            ignore_case: false,
            literal: false,
            context,
            limit,
        })
    }

    #[track_caller]
    fn refused(request: wire::ToolRequest, mention: &str) {
        let error = from_wire(request).expect_err("refused");
        assert!(error.contains(mention), "{error}");
    }

    #[track_caller]
    fn taken(request: wire::ToolRequest) {
        from_wire(request).expect("taken");
    }

    #[test]
    fn paths_are_not_empty_not_endless_and_hold_no_nul() {
        let ls = |path: String| wire::ToolRequest::Ls(wire::Ls { path, limit: None });
        refused(ls(String::new()), "path is empty");
        refused(ls("a\0b".into()), "NUL");
        refused(ls("a".repeat(4096)), "4096");
        taken(ls("a".repeat(4095)));
    }

    #[test]
    fn both_sides_of_every_range() {
        let read = |offset, limit| {
            wire::ToolRequest::Read(wire::Read {
                path: "a".into(),
                offset,
                limit,
            })
        };
        refused(read(Some(0), None), "offset");
        refused(read(None, Some(0)), "limit");
        taken(read(Some(1), Some(1)));
        refused(grep_of(21, None), "context");
        taken(grep_of(20, None));
        refused(grep_of(0, Some(0)), "limit");
        refused(grep_of(0, Some(10_001)), "limit");
        taken(grep_of(0, Some(10_000)));
        let bash = |t| {
            wire::ToolRequest::Bash(wire::Bash {
                command: "true".into(),
                timeout_seconds: Some(t),
            })
        };
        refused(bash(0), "timeout_seconds");
        refused(bash(601), "timeout_seconds");
        taken(bash(600));
        refused(wait_of(0, None, None), "seconds");
        refused(wait_of(1801, None, None), "seconds");
        taken(wait_of(1800, None, None));
    }

    #[test]
    fn until_and_max_wait_need_each_other() {
        refused(wait_of(1, Some("x"), None), "max_wait_seconds");
        refused(wait_of(1, None, Some(5)), "until");
        taken(wait_of(1, Some("x"), Some(604_800)));
        refused(wait_of(1, Some("x"), Some(604_801)), "max_wait_seconds");
        refused(wait_of(1, Some("x("), Some(5)), "regular expression");
        taken(wait_of(1, Some(&"x".repeat(1024)), Some(5)));
        refused(wait_of(1, Some(&"x".repeat(1025)), Some(5)), "1024");
    }

    #[test]
    fn edits_name_their_index() {
        refused(edit_of("", "x"), "edits[0].old_text is empty");
        refused(edit_of("same", "same"), "edits[0] makes no change");
        refused(
            wire::ToolRequest::Edit(wire::Edit {
                path: "a".into(),
                edits: vec![],
            }),
            "at least one",
        );
        taken(edit_of("a", ""));
    }

    #[test]
    fn an_extension_may_carry_its_dot() {
        let request = wire::ToolRequest::Find(wire::Find {
            path: ".".into(),
            pattern: None,
            name: None,
            extension: Some(".rs".into()),
            limit: None,
        });
        let Ok(Request::Find(find)) = from_wire(request) else {
            panic!("taken")
        };
        assert_eq!(find.extension.as_deref(), Some("rs"));
        assert_eq!(find.limit, 1000);
    }
}
