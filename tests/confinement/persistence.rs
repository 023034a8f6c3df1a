//! What git, a shell or Ferrum run on their own for this checkout.

use super::Proof::{Changes, Runs};
use super::{Escape, World, bash, refuse_all};
use ferrum_tests::scene::{Scene, ToolRun};
use ferrum_tests::who::everyone;

/// Planted in one way or another; each text ends in a program that makes `outside/pwned`.
pub(super) const TABLE: &[Escape] = &[
    bash("write a hook", Runs, "echo 'touch @OUT@/pwned' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit"),
    bash("move a hook into place", Runs, "echo 'touch @OUT@/pwned' > probe-h; chmod +x probe-h; mv probe-h .git/hooks/post-commit"),
    bash("copy a hook into place", Runs, "echo 'touch @OUT@/pwned' > probe-h; chmod +x probe-h; cp probe-h .git/hooks/post-checkout"),
    bash("link a hook", Runs, "echo 'touch @OUT@/pwned' > probe-h; chmod +x probe-h; ln -s @ROOT@/probe-h .git/hooks/post-commit"),
    bash("hard-link a hook", Runs, "echo 'touch @OUT@/pwned' > probe-h; chmod +x probe-h; ln probe-h .git/hooks/post-commit"),
    bash("make a sample hook real", Runs, "cd .git/hooks && for s in *.sample; do cp $s ${s%.sample}; echo 'touch @OUT@/pwned' > ${s%.sample}; done"),
    bash(
        "rename the hooks and make new ones",
        Runs,
        "mv .git/hooks .git/old; mkdir .git/hooks; echo 'touch @OUT@/pwned' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
    ),
    bash(
        "make the hooks a link",
        Runs,
        "mkdir probe-k; echo 'touch @OUT@/pwned' > probe-k/post-commit; chmod +x probe-k/post-commit; rm -rf .git/hooks; ln -s @ROOT@/probe-k .git/hooks",
    ),
    bash(
        "copy the git directory, hook the copy, put it in place",
        Runs,
        "cp -r .git probe-g; echo 'touch @OUT@/pwned' > probe-g/hooks/post-commit; chmod +x probe-g/hooks/post-commit; mv .git probe-o; mv probe-g .git",
    ),
    bash(
        "exchange the git directory for a hooked copy",
        Runs,
        r#"cp -r .git probe-g; echo 'touch @OUT@/pwned' > probe-g/hooks/post-commit; chmod +x probe-g/hooks/post-commit
python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b".git", -100, b"probe-g", 2)'"#,
    ),
    bash(
        "make the git directory a file that points elsewhere",
        Runs,
        "cp -r .git probe-g; echo 'touch @OUT@/pwned' > probe-g/hooks/post-commit; chmod +x probe-g/hooks/post-commit; mv .git probe-o; echo 'gitdir: @ROOT@/probe-g' > .git",
    )
    .if_it_can(),
    bash(
        "make the git directory a link",
        Runs,
        "cp -r .git probe-g; echo 'touch @OUT@/pwned' > probe-g/hooks/post-commit; chmod +x probe-g/hooks/post-commit; mv .git probe-o; ln -s probe-g .git",
    ),
    bash("set a watcher program", Runs, "git config core.fsmonitor 'touch @OUT@/pwned; false'"),
    bash("set the hooks' place", Runs, "mkdir probe-k; echo 'touch @OUT@/pwned' > probe-k/post-commit; chmod +x probe-k/post-commit; git config core.hooksPath @ROOT@/probe-k"),
    bash("set an alias", Runs, "git config alias.st '!touch @OUT@/pwned'"),
    bash("set the ssh program", Runs, "git config core.sshCommand 'touch @OUT@/pwned;'"),
    bash("set the editor", Runs, "git config core.editor 'touch @OUT@/pwned;'; printf 'work() { :; }\\n' > /dev/null; git config commit.verbose true; git config alias.st 'commit --allow-empty'"),
    bash("set a credential program", Runs, "git config credential.helper '!touch @OUT@/pwned;'"),
    bash("set a diff program", Runs, "git config diff.external 'touch @OUT@/pwned;'"),
    bash("set a text conversion", Runs, "git config diff.evil.textconv 'touch @OUT@/pwned; cat'; echo '* diff=evil' > .gitattributes"),
    bash("set a clean filter", Runs, "git config filter.evil.clean 'touch @OUT@/pwned; cat'; echo '* filter=evil' > .gitattributes"),
    bash("set a process filter", Runs, "git config filter.evil.process 'touch @OUT@/pwned;'; echo '* filter=evil' > .git/info/attributes"),
    bash("set a signing program", Runs, "echo 'touch @OUT@/pwned' > probe-s; chmod +x probe-s; git config gpg.program @ROOT@/probe-s; git config commit.gpgsign true"),
    bash("set the remote's program", Runs, "git config remote.origin.receivepack 'touch @OUT@/pwned; git-receive-pack'"),
    bash("set the remote's fetch program", Runs, "git config remote.origin.uploadpack 'touch @OUT@/pwned; git-upload-pack'"),
    bash("set a remote that is a program", Runs, "git config protocol.ext.allow always; git remote set-url origin 'ext::sh -c touch% @OUT@/pwned'"),
    bash("set an update program of the submodule", Runs, "git config submodule.sub.update '!touch @OUT@/pwned;'; cd sub; git commit -q --allow-empty -m x; cd ..; rm -rf probe-z; git -C sub checkout -q HEAD~1 2>/dev/null; git config submodule.recurse false; git add sub").if_it_can(),
    bash("lead the remote to a new repository with a hook", Runs, "git clone -q --bare . probe-r.git; echo 'touch @OUT@/pwned' > probe-r.git/hooks/post-receive; chmod +x probe-r.git/hooks/post-receive; git remote set-url origin @ROOT@/probe-r.git"),
    bash("lead pushes to a new repository with settings", Runs, "git clone -q --bare . probe-r.git; mkdir probe-k; echo 'touch @OUT@/pwned' > probe-k/update; chmod +x probe-k/update; git -C probe-r.git config core.hooksPath @ROOT@/probe-k; ln -s . probe-l; git config remote.origin.pushurl file://@ROOT@/probe-l/probe-%72"),
    bash("include a file of the root", Runs, "printf '[core]\\n fsmonitor = \"touch @OUT@/pwned; false\"\\n' > probe-i; git config include.path @ROOT@/probe-i"),
    bash("include a file on a condition", Runs, "printf '[alias]\\n st = \"!touch @OUT@/pwned\"\\n' > probe-i; git config includeIf.gitdir:@ROOT@/.path @ROOT@/probe-i"),
    bash("append to the settings", Runs, "printf '[alias]\\n\\tst = \"!touch @OUT@/pwned\"\\n' >> .git/config"),
    bash("replace the settings by a new file", Runs, "cp .git/config .git/config.lock; printf '[alias]\\n\\tst = \"!touch @OUT@/pwned\"\\n' >> .git/config.lock; mv -f .git/config.lock .git/config"),
    bash("edit the settings in place", Runs, "sed -i 's|st = status|st = \"!touch @OUT@/pwned\"|' .git/config"),
    bash("hide a program in a harmless key's value", Runs, "git config user.name \"$(printf 'x\\n[alias]\\n\\tst = !touch @OUT@/pwned')\"; printf '[user]\\n\\tname = x\\n[alias]\\n\\tst = \"!touch @OUT@/pwned\"\\n' >> .git/config"),
    bash("point to another common directory", Runs, "cp -r .git probe-g; echo 'touch @OUT@/pwned' > probe-g/hooks/post-commit; chmod +x probe-g/hooks/post-commit; echo @ROOT@/probe-g > .git/commondir"),
    bash("make settings of the worktree", Runs, "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'touch @OUT@/pwned; false'"),
    bash("hook the nested repository", Runs, "echo 'touch @OUT@/pwned' > vendor/nested/.git/hooks/post-commit; chmod +x vendor/nested/.git/hooks/post-commit"),
    bash("set a watcher in the nested repository", Runs, "git -C vendor/nested config core.fsmonitor 'touch @OUT@/pwned; false'"),
    bash("point the nested repository elsewhere", Runs, "cp -r vendor/nested/.git probe-g; echo 'touch @OUT@/pwned' > probe-g/hooks/post-commit; chmod +x probe-g/hooks/post-commit; echo @ROOT@/probe-g > vendor/nested/.git/commondir"),
    bash(
        "forge the nested repository after moving its parent",
        Runs,
        "mv vendor probe-v; mkdir -p vendor; cp -r probe-v/nested vendor/nested; echo 'touch @OUT@/pwned' > vendor/nested/.git/hooks/post-commit; chmod +x vendor/nested/.git/hooks/post-commit",
    ),
    bash("hook the submodule", Runs, "mkdir -p .git/modules/sub/hooks; echo 'touch @OUT@/pwned' > .git/modules/sub/hooks/post-commit; chmod +x .git/modules/sub/hooks/post-commit"),
    bash("set a watcher in the submodule", Runs, "git -C sub config core.fsmonitor 'touch @OUT@/pwned; false'"),
    bash("point the submodule elsewhere", Runs, "cp -r .git/modules/sub probe-g; echo 'touch @OUT@/pwned' > probe-g/hooks/post-commit; chmod +x probe-g/hooks/post-commit; git -C sub config -f @ROOT@/probe-g/config core.worktree @ROOT@/sub; echo 'gitdir: @ROOT@/probe-g' > sub/.git"),
    bash("hook the worktree's submodule", Runs, "m=.git/worktrees/tree/modules/sub; mkdir -p $m/hooks; echo 'touch @OUT@/pwned' > $m/hooks/post-commit; chmod +x $m/hooks/post-commit"),
    bash("set a watcher in the worktree's submodule", Runs, "git config -f .git/worktrees/tree/modules/sub/config core.fsmonitor 'touch @OUT@/pwned; false'"),
    bash("replace the module directory of the worktree", Runs, "cd .git/worktrees/tree; cp -r modules @ROOT@/probe-g; echo 'touch @OUT@/pwned' > @ROOT@/probe-g/sub/hooks/post-commit; chmod +x @ROOT@/probe-g/sub/hooks/post-commit; mv modules @ROOT@/probe-o; mv @ROOT@/probe-g modules"),
    bash("replace the module directory", Runs, "cp -r .git/modules probe-g; echo 'touch @OUT@/pwned' > probe-g/sub/hooks/post-commit; chmod +x probe-g/sub/hooks/post-commit; mv .git/modules probe-o; mv probe-g .git/modules"),
    bash("point the worktree elsewhere", Runs, "cp -r .git probe-g; echo 'touch @OUT@/pwned' > probe-g/hooks/post-commit; chmod +x probe-g/hooks/post-commit; echo @ROOT@/probe-g > .git/worktrees/tree/commondir"),
    bash("make Ferrum's project directory", Changes, "mkdir .ferrum; echo 'safety = \"low\"' > .ferrum/config.toml"),
    bash("move Ferrum's project directory into place", Changes, "mkdir probe-f; echo 'safety = \"low\"' > probe-f/config.toml; mv probe-f .ferrum"),
    bash("link Ferrum's project directory", Changes, "mkdir probe-f; ln -s probe-f .ferrum"),
    bash("make Ferrum's project directory a file", Changes, "echo x > .ferrum"),
    bash("change the project's policy", Changes, "echo 'safety = \"low\"' > .ferrum/config.toml").after(WITH_POLICY),
    bash("remove the project's policy", Changes, "rm -rf .ferrum").after(WITH_POLICY),
    bash("rename the project's policy away", Changes, "mv .ferrum probe-f").after(WITH_POLICY),
    bash("replace the project's policy by rename", Changes, "echo x > probe-p; mv -f probe-p .ferrum/config.toml").after(WITH_POLICY),
    bash("add to the project's policy", Changes, "mkdir -p .ferrum/skills/x; echo x > .ferrum/skills/x/SKILL.md").after(WITH_POLICY),
    bash("exchange the project's policy", Changes, r#"mkdir probe-f; echo x > probe-f/config.toml; python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b".ferrum", -100, b"probe-f", 2)'"#).after(WITH_POLICY),
];

const WITH_POLICY: &str = "mkdir .ferrum; echo 'max_tool_rounds = 9' > .ferrum/config.toml";

#[test]
fn nothing_that_runs_on_its_own_can_be_planted() {
    refuse_all(World::Whole, TABLE);
}

/// A repository that the call itself makes may be made, but is named in the result.
#[test]
fn new_repositories_with_programs_are_reported() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let script = "git init -q fresh && git -C fresh config core.fsmonitor 'touch /tmp/x; false' && \
                      printf 'exit 0' > fresh/.git/hooks/post-commit && chmod +x fresh/.git/hooks/post-commit";
        scene.write_program(
            &scene.root().join("probe-act"),
            &format!("#!/bin/bash\n{script}\n"),
        );
        let ran = scene.command("./probe-act", &[]);
        ran.expect_success("make a repository");
        assert!(
            ran.json.to_string().contains("fresh"),
            "the new repository is not named: {}",
            ran.json
        );
    }
}

/// Two calls of one session; the first makes `fresh`.
fn one_after_the_other(scene: &Scene, first: &str, second: &str) -> ToolRun {
    scene.write(
        &scene.root().join("probe-act"),
        format!("if [ -e fresh ]; then {second}; echo won-$((6*7)); else {first}; fi\n"),
    );
    let arguments = serde_json::json!({
        "command": "bash probe-act",
        "seconds": 1,
        "until": { "output_matches": "won-42" },
        "max_wait_seconds": 60,
    });
    let ran = scene.tool("wait", &arguments, &["--shell", "auto"]);
    ran.expect_success("both calls");
    ran
}

/// What one call makes, the next cannot lead elsewhere, and what it adds is named. All in one session.
#[test]
fn worktrees_and_repositories_of_the_session_are_watched_by_later_calls() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let make = "git worktree add -q probe-w -b probe-w && git init -q fresh && cp -r .git probe-g";
        let arm =
            "echo $PWD/probe-g > .git/worktrees/probe-w/commondir; echo x > fresh/.git/hooks/post-commit";
        let ran = one_after_the_other(&scene, make, arm);
        let pointer = scene.root().join(".git/worktrees/probe-w/commondir");
        let pointer = std::fs::read_to_string(pointer).expect("the pointer");
        assert_eq!(pointer.trim(), "../..", "as {}: {}", who.name, ran.text());
        assert!(
            ran.text()
                .contains("fresh/.git: git would obey hooks/post-commit"),
            "{}",
            ran.text()
        );
    }
}

/// What one call lays where nothing was, the next cannot turn into something that git obeys, and a
/// directory that nobody may list hides no hook. All in one session.
#[test]
fn what_one_call_prepares_a_later_one_cannot_use() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let prepare = "mkdir .git/commondir .git/config.worktree .git/remotes && git init -q fresh";
        let arm = "rmdir .git/commondir .git/config.worktree; echo $PWD/evil > .git/commondir; \
                   printf '[core]\\n\\tfsmonitor = x\\n' > .git/config.worktree; echo 'URL: fresh' > .git/remotes/x; \
                   echo x > vendor/nested/.git/hooks/post-commit; chmod 111 vendor/nested/.git/hooks; \
                   echo x > fresh/.git/hooks/post-commit; chmod 111 fresh/.git/hooks; \
                   (head -c 2000000 /dev/zero | tr '\\0' '#'; printf '\\n[core]\\n\\tfsmonitor = x\\n') >> fresh/.git/config";
        let ran = one_after_the_other(&scene, prepare, arm);
        for name in [
            ".git/commondir",
            ".git/config.worktree",
            ".git/remotes/x",
            "vendor/nested/.git/hooks/post-commit",
        ] {
            let left = scene.bash(&format!("test -e {name}"));
            assert_eq!(left.status, Some(1), "{name} as {}: {}", who.name, ran.text());
        }
        for told in [
            "hooks (cannot be looked into)",
            "config (too large, or no plain file)",
        ] {
            assert!(
                ran.text().contains(told),
                "{told} as {}: {}",
                who.name,
                ran.text()
            );
        }
    }
}

/// Harmless keys reach the user's file, the others do not.
#[test]
fn harmless_settings_are_merged_and_programs_are_dropped() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let script = "git config user.name Agent && git remote add second ./x && git config core.fsmonitor ./evil && \
                      git branch -q other && git branch -q --set-upstream-to=main other";
        scene.write_program(
            &scene.root().join("probe-act"),
            &format!("#!/bin/bash\n{script}\n"),
        );
        let ran = scene.command("./probe-act", &[]);
        ran.expect_success("change settings");
        let config = std::fs::read_to_string(scene.root().join(".git/config")).expect("the settings");
        for wanted in ["name = Agent", "[remote \"second\"]", "[branch \"other\"]"] {
            assert!(
                config.contains(wanted),
                "{wanted} is missing (as {}): {config}",
                who.name
            );
        }
        assert!(
            !config.contains("evil"),
            "a program reached the settings: {config}"
        );
        assert!(
            ran.text().contains("core.fsmonitor"),
            "the dropped key is not named: {}",
            ran.text()
        );
    }
}

/// A `.git` file that points to a repository that does not point back adds nothing.
#[test]
fn a_git_file_that_does_not_point_back_adds_nothing() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let odd = scene.home().join("work/odd");
        scene.write(
            &odd.join(".git"),
            format!("gitdir: {}\n", scene.home().join("work/library/.git").display()),
        );
        let before = scene.protected();
        let mut run = scene.command_run(
            "echo x > ../library/.git/refs/heads/evil; git update-ref refs/heads/evil HEAD; cat ../library/lib.txt; true",
            &[],
        );
        run.cwd = odd;
        let ran = ToolRun::of(&run);
        assert_eq!(ran.outcome(), "done", "{}", ran.output.all());
        assert!(before.changes(&scene.protected()).is_empty());
        assert!(!scene.home().join("work/library/.git/refs/heads/evil").exists());
        assert!(!ran.stdout().contains("library"), "{}", ran.text());
    }
}
