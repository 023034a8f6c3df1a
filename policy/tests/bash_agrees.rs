//! Differential: whatever bash runs in a text that passes, the judge has seen.
//!
//! Each generated text exists twice, alike but for one program's name: a marker that every tier
//! allows, and one that no tier allows. If bash runs the marker, the twin must be refused; where it
//! passes, a command is missing from our tree. bash runs in a scratch directory with nothing else on
//! its `PATH`. `FERRUM_FUZZ_SECONDS` sets the time (20), `FERRUM_FUZZ_SEED` repeats a run.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "bash itself is asked here"
)]

mod harness;

use harness::code;
use policy::{ShellMode, Tier};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// On the list of high, and no builtin.
const MARKER: &str = "nproc";
/// Refused at every tier, and as long.
const TWIN: &str = "chage";

/// `@` is the program's name, whole; `1` and `2` its first letter and the rest.
#[rustfmt::skip]
const ATOMS: &[&str] = &[
    "@", "echo", "x", "$x", "a=b", "'q'", "\"d\"", "\"$x\"", "$(@)", "`@`", "\"`@`\"", "<(@)", "${x:-$(@)}",
    "${x:-`@`}", "\"${x:-a;@}\"", "$((1+1))", "\\\n", "\\ ", "-", "{a,@}", "{", "}", "==", "=~", "!", "[[", "]]",
    "in", "do", "(", ")", "#c", "$'a\\'b'", "$\"x\"", "*", "[a]", "~", "a#b", "x=$(@)", "a[1]=2", "a[$(@)]=1",
    "$[1]", "\"$\\\n(@)\"", "1\\\n2", "1\\2", "'1'2", "2>&1", ">f", "<<<x", "<f", "&>f", "time", "coproc",
    "eval @", "command @", "builtin eval @", "trap @ EXIT", "exec @", "f(){ @;}", "$@", "${x/a/`@`}",
    "${x//\\//$(@)}", "\"$(echo \"$(@)\")\"", "`echo \\`@\\``", "x+=1", "declare y=$(@)", "[ -n $(@) ]",
    "[[ -n $(@) ]]", "((x=$(@)))", "let x=1", "${!x}", "$#", "$\\", "\"\\`@\\`\"", "<<E\n`@`\nE\n",
    "<<E\n$(@)\nE\n", "<<'E'\n@\n`@`\nE\n", "<<-E\n\t@\n\tE\n", "<<\"E\"\n$(@)\nE\n@", "<<E\nx\nE\n@\n",
    "<<'E' 2>&1 | cat\n@\nE\n", "<<'E'; @\nx\nE\n", "<<A <<B\n$(@)\nA\nx\nB\n", "<<A <<'B' | @\nx\nA\n@\nB\n",
    "<<E & @\n$(@)\nE\n", "<<E && @\nx\\\nE\n$(@)\nE\n", "for i do @; done", "$((10#$x))", "${x:$i:1}",
    "[[ x == @(a|b) ]]", "declare -A m", "${m[$(@)]}", "${m[a]}", "m[@]=1", "\"${x//'/'/$(@)}\"", "# <<E", "'<<E'",
    "\"<<E\"", "$((1<<2))", "((1<<2))", "E", "E\n@", "\"${x:-'$(@)'}\"", "$(( '$(@)' ))", "`echo` `@`", "$ ", "x=@",
    "(('$(@)'))", "a['$(@)']=1", "${x:-@}", "[@]", "\"$ @\"", "((#@", "(( #", "x='a[$(@)]'", "((x))", "set -- @",
    "$x/$y.@", "x=$x/$x.c", "$x.$x-@", "${x#${x}}", "\"${x%\"$x\"}\"", "${x//'}'/@}", "\"${x//'\"'/@}\"",
    "${x:-a;@}", "\"${x:-(@)}\"", "${x%%\\}}", "${x/;@/ }", "{@,-l}", "time {", "time (@)", "[ x \\< @ ]", "\\ #",
    ">&'$(@)'", ">&\"\\$(@)\"", "\\", "${x^^'}'}", "${x/\"}\"/`@`}", "$x/$(@)", "set -- a; \"$@\"", "x=\"a; @\"; eval \"$x\"",
    "bash -c \"${x:-true; @}\"", "eval \"${x:-a|@}\"", "${x#$'\\'}'}", "${a[@]/(/@}",
];
const SEPARATORS: &[&str] = &[
    " ; ", "\n", " && ", " || ", " | ", " & ", ";", "&", "|", "\n\n", " |& ", ";;",
];
const NOISE: &[&str] = &[
    "\\\n", " ", "\n", ";", "(", ")", "'", "\"", "`", "$", "&", "|", "<", ">", "=", "#", "\\", "{", "}",
    "<<E",
];

/// xorshift: repeatable without a crate.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (bound as u64)).expect("small")
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn words(&mut self) -> String {
        let count = 1 + self.below(4);
        let words: Vec<&str> = (0..count).map(|_| self.of(ATOMS)).collect();
        words.join(" ")
    }

    fn list(&mut self, depth: usize) -> String {
        let mut out = self.command(depth);
        for _ in 0..self.below(3) {
            out.push_str(self.of(SEPARATORS));
            out.push_str(&self.command(depth));
        }
        out
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 || self.below(2) == 0 {
            return self.words();
        }
        let inner = self.list(depth - 1);
        match self.below(13) {
            0 => format!("({inner})"),
            1 => format!("{{ {inner}; }}"),
            2 => format!("if {inner}; then {}; fi", self.list(depth - 1)),
            3 => format!("for i in {} a; do {inner}; done", self.of(ATOMS)),
            4 => format!("while false || {inner}; do {inner}; break; done"),
            5 => format!(
                "case {} in {}) {inner};; *) {inner};; esac",
                self.of(ATOMS),
                self.of(ATOMS)
            ),
            6 => format!("echo $({inner})"),
            7 => format!("echo \"$({inner})\""),
            8 => format!("f() {{ {inner}; }}; f"),
            9 => format!("! {inner}"),
            10 => format!("echo `{inner}`"),
            11 => format!("cat <({inner})"),
            _ => format!("[[ {} == {} ]] && {inner}", self.of(ATOMS), self.of(ATOMS)),
        }
    }

    fn text(&mut self) -> String {
        let mut text = self.list(2);
        for _ in 0..self.below(3) {
            let at = text.floor_char_boundary(self.below(text.len() + 1));
            if self.below(2) == 0 {
                text.insert_str(at, self.of(NOISE));
            } else if at < text.len() {
                text.remove(at);
            }
        }
        text
    }
}

fn named(template: &str, name: &str) -> String {
    let split = |text: &str| text.replace("1\\\n2", &format!("{}\\\n{}", &name[..1], &name[1..]));
    split(template)
        .replace("1\\2", &format!("{}\\{}", &name[..1], &name[1..]))
        .replace("'1'2", &format!("'{}'{}", &name[..1], &name[1..]))
        .replace("@(a|b)", "\u{0}")
        .replace("$@", "\u{1}")
        .replace('@', name)
        .replace('\u{0}', "@(a|b)")
        .replace('\u{1}', "$@")
}

/// True when bash runs the marker in `text`.
fn runs_marker(text: &str, scratch: &Path) -> bool {
    let log = scratch.join("log");
    let _ = std::fs::remove_file(&log);
    // What earlier texts wrote would be what a pattern matches.
    let work = scratch.join("work");
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir(&work).expect("a working directory");
    let mut child = Command::new("/bin/bash")
        .args(["--norc", "--noprofile", "-c"])
        .arg("ulimit -t 2 -f 64; eval \"$TEXT\"")
        .env_clear()
        .env("PATH", scratch.join("bin"))
        .env("TEXT", text)
        .current_dir(work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("bash starts");
    let deadline = Instant::now() + Duration::from_secs(3);
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // What was started in the background may come a little later.
    std::thread::sleep(Duration::from_millis(5));
    log.exists()
}

fn scratch() -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let scratch = std::env::temp_dir().join(format!("ferrum-bash-{}", std::process::id()));
    for directory in ["bin", "work"] {
        std::fs::create_dir_all(scratch.join(directory)).expect("a scratch directory");
    }
    let program = scratch.join("bin").join(MARKER);
    let text = format!("#!/bin/bash\n: > '{}'\n", scratch.join("log").display());
    std::fs::write(&program, text).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    scratch
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

const FIXED_SEED: u64 = 20_261_130;
const FIXED_TEXTS: u32 = 6_000;

#[test]
fn whatever_bash_runs_was_judged() {
    // By default the same texts each time; `FERRUM_FUZZ_SECONDS` asks for new ones for that long.
    let seconds = variable("FERRUM_FUZZ_SECONDS");
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = clock.map_or(1, |time| u64::from(time.subsec_nanos()) + time.as_secs());
    let seed = variable("FERRUM_FUZZ_SEED")
        .unwrap_or(if seconds.is_some() { now } else { FIXED_SEED })
        .max(1);
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let scratch = scratch();
    let (mut texts, mut passed, mut asked, mut ran) = (0_u32, 0_u32, 0_u32, 0_u32);
    let deadline = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut missed = Vec::new();
    let goes_on = |texts: u32| deadline.map_or(texts < FIXED_TEXTS, |end| Instant::now() < end);
    while goes_on(texts) && missed.len() < 5 {
        let template = random.text();
        let text = named(&template, MARKER);
        texts += 1;
        let allowed = |text: &str, tier| code(tier, ShellMode::Static, text).is_empty();
        if !text.contains(MARKER) || !allowed(&text, Tier::Low) {
            continue;
        }
        passed += 1;
        let twin = named(&template, TWIN);
        let passes = allowed(&twin, Tier::Low);
        // Where the twin is refused there is nothing to ask; a few are asked to prove the marker.
        if !passes && passed % 50 != 0 {
            continue;
        }
        asked += 1;
        if runs_marker(&text, &scratch) {
            ran += 1;
            // Something of an earlier text that ran late may have left the mark.
            std::thread::sleep(Duration::from_millis(100));
            if passes && runs_marker(&text, &scratch) {
                missed.push(text);
            }
        }
    }
    let _ = std::fs::remove_dir_all(&scratch);
    assert!(
        missed.is_empty(),
        "seed {seed}: bash runs what was not judged in {missed:#?}"
    );
    assert!(
        passed * 20 > texts && ran > 0,
        "seed {seed}: {texts} texts, {passed} passed, {asked} asked, {ran} ran: the generator does not reach the check"
    );
}
