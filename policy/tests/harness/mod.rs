//! Judging a command line as a session in `/project` would, and the table format.

#![allow(dead_code, reason = "no test uses all of it")]

use policy::{
    Action, Grant, Ground, Isolation, Require, ShellMode, Tier, UserPolicy, Verdict, Wish, judge, narrow,
};

/// One row of a table: `id`, `tier`, `expect`, `command` (a JSON string), `kind`, `why`.
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) tier: Tier,
    pub(crate) allow: bool,
    pub(crate) command: String,
    pub(crate) kind: String,
}

pub(crate) fn rows(table: &str) -> Vec<Row> {
    let lines = table.lines().skip(1).filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            Row {
                id: cells[0].to_owned(),
                tier: tier(cells[1]),
                allow: cells[2] == "allow",
                command: json_string(cells[3]),
                kind: cells[4].to_owned(),
            }
        })
        .collect()
}

fn tier(name: &str) -> Tier {
    match name {
        "low" => Tier::Low,
        "medium" => Tier::Medium,
        "high" => Tier::High,
        other => panic!("no tier {other}"),
    }
}

/// Decodes a JSON string.
pub(crate) fn json_string(text: &str) -> String {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .expect("a JSON string");
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next().expect("an escape") {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'u' => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).expect("four digits");
                out.push(char::from_u32(code).expect("a character"));
            }
            other => out.push(other),
        }
    }
    out
}

pub(crate) fn grant(tier: Tier, shell: ShellMode) -> Grant {
    let user = UserPolicy {
        ceiling: Tier::Low,
        tier,
        network: None,
        shell,
        require: Some(Require::Kernel),
        tools_allow: None,
        tools_deny: Vec::new(),
        max_tool_rounds: 0,
        writable_roots: vec!["/project".into()],
        readable_roots: Vec::new(),
    };
    narrow(&user, &[], &Wish::default()).expect("nothing narrows")
}

pub(crate) fn ground() -> Ground {
    Ground {
        cwd: "/project".into(),
        home: "/home/user".into(),
        writable: vec!["/project".into()],
        readable: Vec::new(),
        private: vec!["/tmp".into(), "/dev/shm".into(), "/home/user".into()],
        protected: vec!["/project/.ferrum".into(), "/home/user/.config/ferrum".into()],
        isolation: Isolation::Full,
    }
}

pub(crate) fn verdict(tier: Tier, shell: ShellMode, command: &str) -> Verdict {
    judge(&grant(tier, shell), &ground(), &Action::Run { command })
}

/// `""` for allowed, else the code.
pub(crate) fn code(tier: Tier, shell: ShellMode, command: &str) -> &'static str {
    match verdict(tier, shell, command) {
        Verdict::Allow => "",
        Verdict::Refuse(refusal) => refusal.code,
    }
}
