//! Ordinary work at medium goes on: from the top of a checkout, from a sub-directory, in nested
//! repositories, worktrees and submodules.
//!
//! Each row is first run unconfined, so that a machine without a program is told apart from a
//! wall that is in the way. Afterwards the user's tree has no stray file.

use crate::confinement::at_once;
use ferrum_tests::run::{PATH, Run};
use ferrum_tests::scene::{Scene, ToolRun};
use ferrum_tests::who::{Who, everyone};
use ferrum_tests::{not_tried, walls_are_required};
use std::path::PathBuf;

struct Work {
    /// Also the programs that it needs, as the first word of each.
    name: &'static str,
    needs: &'static str,
    /// Below the root; `../tree` is the linked worktree.
    dir: &'static str,
    script: &'static str,
}

const fn git(name: &'static str, dir: &'static str, script: &'static str) -> Work {
    Work {
        name,
        needs: "git",
        dir,
        script,
    }
}

const fn with(needs: &'static str, name: &'static str, script: &'static str) -> Work {
    Work {
        name,
        needs,
        dir: ".",
        script,
    }
}

const COMMIT: &str = "git status && echo more >> \"$(git ls-files | grep -E 'md$|txt$' | head -1)\" && git add -A . && \
                      git commit -qm work && git log --oneline -1 && git diff HEAD~1 --stat";
const STASH: &str = "f=$(git ls-files | grep -E 'md$|txt$' | head -1); echo x >> $f; git stash && git stash pop && git checkout -q -- $f";
const BRANCHES: &str = "git checkout -qb topic && git commit -q --allow-empty -m t && git checkout -q - && git merge -q topic && \
                        git branch -m topic renamed && git tag v1 && git branch -D renamed && git gc -q";
const REBASE: &str = "git checkout -qb side && echo s > side.txt && git add side.txt && git commit -qm side && \
                      git checkout -q main && git commit -q --allow-empty -m main && git checkout -q side && git rebase -q main";
const SETTINGS: &str = "git config user.name Agent && test \"$(git config user.name)\" = Agent && git config user.email a@example.org";

const GIT: &[Work] = &[
    git("commit", ".", COMMIT),
    git(
        "commit in a sub-directory",
        "src",
        "echo x >> main.rs && git add . && git commit -qm x && git status --short && git log --oneline -1",
    ),
    git("commit in a nested repository", "vendor/nested", COMMIT),
    git("commit in a linked worktree", "../tree", COMMIT),
    git("commit in a submodule", "sub", COMMIT),
    git(
        "commit in a nested repository from the top",
        ".",
        "cd vendor/nested && echo x >> n.txt && git commit -qam x",
    ),
    git(
        "commit in a submodule from the top",
        ".",
        "cd sub && echo x >> lib.txt && git commit -qam x && cd .. && git add sub && git commit -qm sub",
    ),
    git("stash", ".", STASH),
    git("stash in a linked worktree", "../tree", STASH),
    git("branches, merge, tag, gc", ".", BRANCHES),
    git("branches in a linked worktree", "../tree", BRANCHES),
    git("branches in a submodule", "sub", BRANCHES),
    git("rebase", ".", REBASE),
    git(
        "rebase interactively",
        ".",
        "git commit -q --allow-empty -m a && git commit -q --allow-empty -m b && GIT_SEQUENCE_EDITOR=true git rebase -q -i HEAD~2",
    ),
    git(
        "worktree",
        ".",
        "git worktree add -q probe-wt -b wt && cd probe-wt && git commit -q --allow-empty -m w && cd .. && git worktree list && git worktree remove probe-wt && git branch -D wt",
    ),
    git(
        "remotes",
        ".",
        "git remote add upstream ./.remote.git && git remote rename upstream up && git remote -v && git remote remove up",
    ),
    git(
        "push and track",
        ".",
        "git push -q -u origin HEAD:refs/heads/main && git fetch -q origin && git status -sb",
    ),
    git(
        "rename a branch",
        ".",
        "git branch extra && git branch -m extra extra2 && git branch -d extra2",
    ),
    git(
        "update submodules",
        ".",
        "git submodule update && git submodule status",
    ),
    git("settings", ".", SETTINGS),
    git("settings in a nested repository", "vendor/nested", SETTINGS),
    git("settings in a linked worktree", "../tree", SETTINGS),
    git("settings in a submodule", "sub", SETTINGS),
    git(
        "a new repository",
        ".",
        "git init -q probe-new && cd probe-new && echo x > x && git add x && git commit -qm x",
    ),
    git(
        "a clone",
        ".",
        "git clone -q . probe-clone && git -C probe-clone log --oneline -1",
    ),
    git(
        "cherry-pick and reset",
        ".",
        "git checkout -qb p && echo p > p.txt && git add p.txt && git commit -qm p && git checkout -q main && git cherry-pick p && git reset -q --hard HEAD~1 && git branch -qD p",
    ),
    git(
        "bisect",
        ".",
        "for i in 1 2 3 4; do git commit -q --allow-empty -m $i; done; git bisect start HEAD HEAD~3 && git bisect run true && git bisect reset",
    ),
    git(
        "sparse checkout",
        ".",
        "git sparse-checkout set src && ls src && git sparse-checkout disable",
    ),
    git(
        "ignore and clean",
        ".",
        "touch probe-1 && git clean -qfdX probe-1 && git check-ignore probe-1",
    ),
    git(
        "blame, grep, show, archive",
        ".",
        "git blame README.md && git grep -n first && git show --stat HEAD && git archive HEAD | tar -t",
    ),
    git(
        "apply a patch",
        ".",
        "echo x >> README.md && git diff > probe-p && git checkout -q README.md && git apply probe-p && git checkout -q README.md",
    ),
];

const BUILD: &[Work] = &[
    with(
        "gcc",
        "compile and run",
        "printf '#include <stdio.h>\\nint main(){puts(\"ok\");}' > probe.c && gcc -O1 -o probe-x probe.c && ./probe-x | grep ok",
    ),
    with(
        "make gcc",
        "parallel make",
        "printf 'all: a b c\\n%%: ; sleep 0.05; echo $@\\n' > probe.mk && make -sj4 -f probe.mk all",
    ),
    with(
        "cargo",
        "build, run and test",
        "mkdir -p probe-w && cd probe-w && printf '[workspace]\nresolver = \"3\"\n' > Cargo.toml && cargo new -q --vcs none probe-app && cd probe-app && cargo build -q --offline && cargo run -q --offline && cargo test -q --offline",
    ),
    with(
        "cargo-clippy",
        "clippy",
        "mkdir -p probe-w && cd probe-w && printf '[workspace]\nresolver = \"3\"\n' > Cargo.toml && cargo new -q --vcs none probe-app && cd probe-app && cargo clippy -q --offline",
    ),
    with(
        "python3",
        "virtual environment",
        "python3 -m venv --without-pip probe-venv && ./probe-venv/bin/python -c 'import sys; print(sys.prefix)'",
    ),
    with(
        "pytest",
        "pytest",
        "printf 'def test_x():\\n    assert 1\\n' > probe_test.py && mv probe_test.py probe-test.py && pytest -q -p no:cacheprovider probe-test.py",
    ),
    with(
        "python3",
        "asyncio",
        "python3 -c 'import asyncio\nasync def f(): return await asyncio.to_thread(lambda: 1)\nprint(asyncio.run(f()))'",
    ),
    with(
        "python3",
        "asyncio child",
        "python3 -c 'import asyncio\nasync def f():\n    p = await asyncio.create_subprocess_exec(\"true\")\n    return await p.wait()\nassert asyncio.run(f()) == 0'",
    ),
    with(
        "python3",
        "multiprocessing",
        "python3 -c 'import multiprocessing as m\nwith m.Pool(3) as p: print(sum(p.map(abs, range(9))))\nq = m.Queue(); q.put(1); q.get()\nwith m.Manager() as g: g.dict()\nprint(m.Lock())'",
    ),
    with(
        "python3",
        "shared memory",
        "python3 -c 'from multiprocessing.shared_memory import SharedMemory as S\ns = S(create=True, size=99); s.close(); s.unlink()'",
    ),
    with(
        "node",
        "node",
        "node -e 'const c = require(\"child_process\"); console.log(c.execSync(\"echo ok\").toString()); new (require(\"worker_threads\").Worker)(\"1\", {eval: true})'",
    ),
    with(
        "npm",
        "npm test",
        "mkdir probe-npm && cd probe-npm && echo '{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"node -e 0\"}}' > package.json && npm test --silent",
    ),
    with("perl", "perl", "perl -e 'print 6*7'"),
];

const SERVERS: &[Work] = &[
    with("python3", "a server and its client", "python3 -c '
import http.server, threading, urllib.request
s = http.server.HTTPServer((\"127.0.0.1\", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=s.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f\"http://127.0.0.1:{s.server_port}/README.md\").read())'"),
    with("python3", "a server in the background", "python3 -m http.server 8123 --bind 127.0.0.1 > /dev/null 2>&1 & for i in $(seq 100); do (echo > /dev/tcp/127.0.0.1/8123) 2>/dev/null && break; sleep 0.05; done; printf 'GET /README.md HTTP/1.0\\r\\n\\r\\n' > /dev/null; exec 3<>/dev/tcp/localhost/8123; printf 'GET /README.md HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3 | grep first; s=$?; kill %1; exit $s"),
    with("node", "a node server", "node -e 'const h=require(\"http\").createServer((q,r)=>r.end(\"ok\")).listen(0,\"127.0.0.1\",()=>require(\"http\").get({port:h.address().port},r=>{r.resume();h.close()}))'"),
    with("python3", "unix sockets", "python3 -c '
import os, socket, tempfile
for d in (tempfile.mkdtemp(), \".\"):
    p = os.path.join(d, \"probe.s2\"); s = socket.socket(socket.AF_UNIX); s.bind(p); s.listen()
    c = socket.socket(socket.AF_UNIX); c.connect(p); c.send(b\"x\"); assert s.accept()[0].recv(1) == b\"x\"; os.unlink(p)'"),
    with("python3", "name of the machine", "python3 -c 'import socket; socket.gethostname(); print(socket.gethostbyname(\"localhost\"))'"),
];

const PROGRAMS: &[Work] = &[
    with(
        "gpg",
        "sign",
        "gpg --batch --passphrase '' --quick-gen-key t@example.org default default never && echo x | gpg --batch --clearsign > /dev/null",
    ),
    with(
        "ssh-keygen",
        "a key pair",
        "ssh-keygen -q -t ed25519 -N '' -f probe-key && ls probe-key.pub",
    ),
    with(
        "tmux",
        "tmux",
        "tmux new-session -d -s x 'echo hello; sleep 5' && tmux list-sessions | grep x && tmux kill-server",
    ),
    with(
        "script",
        "script",
        "script -qec 'tty && echo ok' /dev/null | grep ok",
    ),
    with(
        "gdb gcc",
        "gdb",
        "printf 'int main(){return 0;}' > probe.c && gcc -g -o probe-g probe.c && gdb -batch -ex 'break main' -ex run -ex bt ./probe-g | grep main",
    ),
    with(
        "strace",
        "strace",
        "strace -f -o probe-trace bash -c 'echo ok' && grep -q execve probe-trace",
    ),
    with(
        "bash",
        "temporary files",
        "t=$(mktemp) && echo x > $t && d=$(mktemp -d) && mv $t $d/y && cat $d/y && test -w \"${TMPDIR:-/tmp}\"",
    ),
    with(
        "bash",
        "shared memory",
        "echo x > /dev/shm/x && cat /dev/shm/x && rm /dev/shm/x",
    ),
    with(
        "bash",
        "fifos",
        "mkfifo probe-f && (echo through > probe-f &) && read -r x < probe-f && test \"$x\" = through",
    ),
    with(
        "bash",
        "process substitution",
        "diff <(printf 'a\\nb\\n') <(printf 'a\\nb\\n') && cat < <(echo ok) && echo x | tee >(cat > /dev/null)",
    ),
    with("bash", "here-documents", "cat <<'END'\nline\nEND\ncat <<< word"),
    with("bash", "a long output", "seq 1 200000"),
    with(
        "bash",
        "pipes and jobs",
        "sleep 0.1 & wait $!; yes | head -n 10000 | wc -l | grep 10000",
    ),
    with(
        "bash",
        "the home directory",
        "test -d \"$HOME\" && touch \"$HOME/x\" && mkdir -p ~/.cache/y && rm -r ~/x ~/.cache/y",
    ),
    with(
        "bash",
        "standard devices",
        "head -c 9 /dev/urandom > /dev/null && : < /dev/zero && ls -l /dev/fd /dev/stdin && echo x >&2",
    ),
    with(
        "ps",
        "the session's processes",
        "ps -ef | grep -c . && test \"$(ps -o pid= -p $$)\" -eq $$",
    ),
    with(
        "top",
        "looking at the machine",
        "top -bn1 | head -5 && free && df -h . && nproc && uname -a && id && date",
    ),
    with("man", "manual page", "MANPAGER=cat man ls > /dev/null"),
    with(
        "tar gzip",
        "archives",
        "tar -czf probe.tgz src && tar -tzf probe.tgz",
    ),
    with(
        "sqlite3",
        "a data base",
        "sqlite3 probe.db 'create table t(x); insert into t values(1); select * from t;'",
    ),
    with("ip", "addresses", "ip addr show lo"),
    with("jq", "jq", "echo '{\"a\":1}' | jq .a"),
    with(
        "bash",
        "modes, times and links of one's own files",
        "touch probe-a && chmod 755 probe-a && touch -d 2001-01-01 probe-a && ln probe-a probe-b && ln -s probe-a probe-c && mv probe-b probe-d && truncate -s 10 probe-a",
    ),
];

#[test]
fn git_goes_on() {
    all_work(GIT);
}

#[test]
fn builds_go_on() {
    all_work(BUILD);
}

#[test]
fn servers_go_on() {
    all_work(SERVERS);
}

#[test]
fn programs_go_on() {
    all_work(PROGRAMS);
}

fn all_work(table: &[Work]) {
    let users = everyone();
    let rows: Vec<(&Who, &Work)> = users
        .iter()
        .flat_map(|who| table.iter().map(move |work| (who, work)))
        .collect();
    let failures = at_once(&rows, |(who, work)| {
        let report = goes_on(who, work).err()?;
        Some(format!(
            "* {} in {} (as {}): {report}",
            work.name, work.dir, who.name
        ))
    });
    assert!(
        failures.is_empty(),
        "ordinary work that broke:\n{}",
        failures.join("\n")
    );
}

fn goes_on(who: &Who, work: &Work) -> Result<(), String> {
    let free = Scene::new(who);
    let missing = work
        .needs
        .split(' ')
        .find(|program| !is_installed(&free, program));
    if let Some(program) = missing {
        return passed_over(work, &format!("{program} is not installed for {}", who.name));
    }
    let control = at(&free, free.run("/bin/bash").args(["-c", work.script]), work).output();
    if control.status != Some(0) {
        return passed_over(
            work,
            &format!(
                "{} fails unconfined as {}: {}",
                work.name,
                who.name,
                control.all()
            ),
        );
    }
    let scene = Scene::new(who);
    let run = at(
        &scene,
        scene.command_run(work.script, &["--safety", "medium"]),
        work,
    );
    let ran = ToolRun::of(&run);
    if ran.outcome() != "done" || ran.status() != Some(0) {
        return Err(if ran.text().is_empty() {
            ran.output.all()
        } else {
            ran.text().to_owned()
        });
    }
    let stray = stray_files(&scene, &free);
    if stray.is_empty() {
        Ok(())
    } else {
        Err(format!("stray files: {stray:?}"))
    }
}

/// Names it; in CI only git and bash must be there, and what they do must work unconfined.
fn passed_over(work: &Work, why: &str) -> Result<(), String> {
    if walls_are_required() && matches!(work.needs, "git" | "bash") {
        return Err(why.to_owned());
    }
    not_tried(why);
    Ok(())
}

/// The working directory, and the tester's own toolchain beside the scene's home.
fn at(scene: &Scene, run: Run, work: &Work) -> Run {
    let mut run = toolchain(run);
    run.cwd = scene
        .root()
        .join(work.dir)
        .canonicalize()
        .expect("the directory of the work");
    run
}

fn toolchain(run: Run) -> Run {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let place = |name: &str, default: &str| {
        std::env::var_os(name)
            .map_or_else(|| home.join(default), PathBuf::from)
            .display()
            .to_string()
    };
    let (cargo, rustup) = (place("CARGO_HOME", ".cargo"), place("RUSTUP_HOME", ".rustup"));
    let run = run.env("PATH", format!("{cargo}/bin:{PATH}"));
    run.env("CARGO_HOME", cargo).env("RUSTUP_HOME", rustup)
}

fn is_installed(scene: &Scene, program: &str) -> bool {
    toolchain(
        scene
            .run("/bin/bash")
            .args(["-c", &format!("command -v {program}")]),
    )
    .output()
    .status
        == Some(0)
}

/// Lines of `git status` that the same work without walls does not leave.
fn stray_files(scene: &Scene, free: &Scene) -> Vec<String> {
    let status = |scene: &Scene| -> Vec<String> {
        let command = "for d in . vendor/nested sub ../tree; do git -C $d status --porcelain --ignored; done; ls -A . .. ../.. .git";
        scene.bash(command).out().lines().map(str::to_owned).collect()
    };
    let expected = status(free);
    // Ferrum's own directories in the home.
    let own = |line: &str| line == ".cache" || line == ".local";
    status(scene)
        .into_iter()
        .filter(|line| !expected.contains(line) && !own(line))
        .collect()
}

/// Big outputs end with the command's own last line, and nothing hangs.
#[test]
fn a_very_long_output_is_cut_in_the_middle() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let ran = scene.command("seq 1 3000000", &[]);
        ran.expect_success("a long output");
        assert!(ran.text().len() < 200_000, "{} bytes", ran.text().len());
        assert!(ran.text().contains("\n3000000"), "the end is missing");
        assert!(
            ran.json["command"]["stdout_bytes"]
                .as_u64()
                .is_some_and(|bytes| bytes > 20_000_000),
            "{}",
            ran.json["command"]
        );
    }
}
