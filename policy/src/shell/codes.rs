//! The refusal codes: what each means, with an admitted and a refused example.

use crate::Tier;

/// One code. `docs/POLICY.md` lists them; a test judges both examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    pub code: &'static str,
    /// One sentence, lower case, no full stop.
    pub sentence: &'static str,
    /// The tier at which the examples are judged, in static mode.
    pub tier: Tier,
    pub admitted: &'static str,
    pub refused: &'static str,
}

const fn code(
    code: &'static str,
    tier: Tier,
    sentence: &'static str,
    admitted: &'static str,
    refused: &'static str,
) -> Code {
    Code {
        code,
        sentence,
        tier,
        admitted,
        refused,
    }
}

use Tier::{High, Low, Medium};

/// All codes of the shell policy whose example fits a line. The limits (`limit-bytes`,
/// `limit-nodes`, `limit-depth`, `limit-time`, `limit-commands`, `limit-payload`,
/// `limit-wrappers`) are refused at every tier and have no short example.
#[rustfmt::skip]
pub const CODES: &[Code] = &[
    code("control", Low, "the text holds a control character other than tab and newline", "printf '\\033[0m'", "echo \u{1b}[0m"),
    code("unicode", Medium, "the text holds an invisible character, or a command's name has letters beyond ASCII", "echo 'ünïcode'", "ls\u{200b}-l"),
    code("malformed", Low, "something that bash needs is missing", "echo \"${x}\"", "echo \"${x\""),
    code("unreadable", Low, "the text cannot be read with certainty", "(ls; pwd)", "((ls); pwd)"),
    code("privilege", Low, "the command gains authority that no tier has", "grep sudo docs/install.md", "sudo ls"),
    code("catastrophic", Low, "the command destroys the system, the home directory or every process", "rm -rf build/", "rm -rf /"),
    code("protected", Low, "the command writes what git, a shell, Ferrum or a login obeys, or credentials", "echo '*.o' >> .gitignore", "echo x >> ~/.ssh/config"),
    code("dynamic-command", Medium, "which program runs is only known at run time", "make test", "$TOOL test"),
    code("rebinds", Medium, "the text changes what a command's name means", "bash scripts/build.sh", "ls() { ./x; }; ls"),
    code("detach", Medium, "something would run apart from the call", "./server & ./client", "nohup ./server"),
    code("coproc", Medium, "a coprocess runs beside the shell", "ls | wc -l", "coproc ls"),
    code("indirect-expansion", Medium, "a variable's value would be read as a name or as code", "echo \"${x}\"", "echo \"${!x}\""),
    code("subst", Medium, "a substitution decides what is written or run", "echo \"$(date)\"", "rm $(cat list)"),
    code("outside-root", Medium, "a file outside the writable roots would be written", "echo x > out.txt", "echo x > ../out.txt"),
    code("dynamic-target", Medium, "which file is written is only known at run time", "rm -f a.o b.o", "for f in *.o; do rm \"$f\"; done"),
    code("net-redirect", Medium, "the shell itself would open a network connection", "curl -s http://localhost:8000", "echo x > /dev/tcp/localhost/80"),
    code("eval", Medium, "text would be run as code by the shell", "bash env.sh", "source env.sh"),
    code("inline-code", Medium, "an interpreter would run code that stands in the command", "python3 script.py", "python3 -c 'print(1)'"),
    code("wrapper", Medium, "an option hides what the wrapped command is", "env A=b ls -l", "env -S 'ls -l'"),
    code("indirect", Medium, "a command would run others that the text does not show", "find . -exec wc -l {} +", "find . -exec ./x {} +"),
    code("git-exec", Medium, "git would run a program that an option or a configuration key names", "git -c user.name=x commit -m y", "git -c core.pager=./x log"),
    code("arg-exec", Medium, "an option makes the command run another program", "tar xf a.tar", "tar --to-command=./x -xf a.tar"),
    code("arg-write", Medium, "an option makes a reading command write outside the roots", "sort -o out.txt in.txt", "sort -o ../out.txt in.txt"),
    code("env-authority", Medium, "a variable decides what later commands run", "RUST_LOG=debug cargo test", "LD_PRELOAD=./x.so ls"),
    code("arith-injection", Medium, "a value that may hold code would be evaluated", "i=1; echo $((i + 1))", "echo $((x + 1))"),
    code("secret", Medium, "a file that may hold credentials would be read", "cat README.md", "cat ~/.ssh/id_rsa"),
    code("not-inspection", High, "the command is not on the inspection list", "git log --oneline", "cargo build"),
    code("exec-path", High, "the program is not named by a system directory", "/usr/bin/ls src", "./ls src"),
    code("control-flow", High, "control flow is not part of the inspection tier", "ls && pwd", "if true; then ls; fi"),
    code("expansion", High, "an expansion is only known at run time", "ls \"$HOME\"", "ls $DIR"),
    code("writes", High, "a file would be written", "ls 2>/dev/null", "ls > out.txt"),
    code("network", High, "the network would be used", "git remote -v", "curl http://localhost"),
];
