//! Changes outside the writable roots.

use super::Proof::{Changes, Says};
use super::{Escape, World, bash, refuse_all};

pub(super) const TABLE: &[Escape] = &[
    bash("overwrite by path", Changes, "echo x > @OUT@/precious.txt"),
    bash("append by path", Changes, "echo x >> @HOME@/.bashrc"),
    bash("overwrite upwards with dots", Changes, "echo x > ../../../outside/precious.txt"),
    bash("overwrite through a link", Changes, "ln -s @OUT@/precious.txt probe-l; echo x > probe-l"),
    bash("create through a dangling link", Changes, "ln -s @OUT@/new probe-l; echo x > probe-l"),
    bash("create through a directory link", Changes, "ln -s @OUT@ probe-d; echo x > probe-d/new"),
    bash("overwrite through a hard link", Changes, "ln @OUT@/precious.txt probe-h; echo x > probe-h"),
    bash("overwrite by the root link of oneself", Changes, "echo x > /proc/self/root@OUT@/precious.txt"),
    bash("overwrite by the directory link of oneself", Changes, "echo x > /proc/self/cwd/../../../outside/precious.txt"),
    bash("overwrite by another's root link", Changes, "echo x > /proc/@VICTIM@/root@OUT@/precious.txt"),
    bash(
        "overwrite by opening a path handle again",
        Changes,
        r#"python3 -c '
import os
handle = os.open("@OUT@/precious.txt", os.O_PATH)
os.write(os.open(f"/proc/self/fd/{handle}", os.O_WRONLY), b"x")'"#,
    ),
    bash(
        "link a handle into the root and write",
        Changes,
        r#"python3 -c '
import ctypes, os
handle = os.open("@OUT@/precious.txt", os.O_RDONLY)
ctypes.CDLL(None).linkat(-100, f"/proc/self/fd/{handle}".encode(), -100, b"probe-k", 0x400)
open("probe-k", "r+").write("x")'"#,
    ),
    bash(
        "write through another process's working directory",
        Changes,
        "echo x > /proc/@VICTIM@/cwd/../../../outside/precious.txt",
    ),
    bash("remove a file", Changes, "rm -f @OUT@/precious.txt"),
    bash("remove a tree", Changes, "rm -rf @HOME@/Documents"),
    bash("move a file into the root", Changes, "mv @OUT@/precious.txt probe-p"),
    bash("move a file out of the root", Changes, "mv README.md @OUT@/README.md"),
    bash("make a directory", Changes, "mkdir @HOME@/new"),
    bash("make a link", Changes, "ln -s /etc @HOME@/link"),
    bash("make a fifo", Changes, "mkfifo @OUT@/fifo"),
    bash("truncate", Changes, "truncate -s 0 @OUT@/precious.txt"),
    bash("write with dd", Changes, "dd if=/dev/zero of=@OUT@/precious.txt bs=1 count=3"),
    bash("install a program", Changes, "install -m 755 /bin/true @HOME@/.local/bin/git"),
    bash("replace a toolchain's program", Changes, "install -m 755 /bin/true @HOME@/.cargo/bin/cargo"),
    bash("change the mode", Changes, "chmod 777 @OUT@/tool.sh").by_mounts(),
    bash("change the owner", Changes, "chown 1:1 @OUT@/tool.sh").as_root(),
    bash("change the time", Changes, "touch -d 2001-01-01 @OUT@/precious.txt").by_mounts(),
    bash(
        "set an extended attribute",
        Says,
        r#"python3 -c '
import os
os.setxattr("@OUT@/precious.txt", "user.x", b"x"); print(f"won-{6*7}")'"#,
    )
    .by_mounts()
    .if_it_can(),
    bash(
        "exchange two names",
        Changes,
        r#"python3 -c '
import ctypes
print(ctypes.CDLL(None).renameat2(-100, b"@OUT@/precious.txt", -100, b"README.md", 2))'"#,
    ),
    bash("authorise a key", Changes, "echo key >> @HOME@/.ssh/authorized_keys"),
    bash("plant a login program", Changes, "mkdir -p @HOME@/.config/autostart; echo x > @HOME@/.config/autostart/x.desktop"),
    bash("change the shell's start", Changes, "echo 'touch @OUT@/pwned' >> @HOME@/.profile; echo x >> @HOME@/.zshrc"),
    bash("change the user's git settings", Changes, "git config -f @HOME@/.gitconfig core.fsmonitor 'touch @OUT@/pwned'"),
    bash("change Ferrum's settings", Changes, "echo 'x = 1' > @HOME@/.config/ferrum/config.toml"),
    bash("plant instructions for Ferrum", Changes, "echo obey > @HOME@/.config/ferrum/AGENTS.md"),
    bash("forge a session", Changes, "echo '{}' >> @HOME@/.local/share/ferrum/sessions/old.jsonl"),
    bash("hook another repository", Changes, "echo x > @HOME@/work/library/.git/hooks/pre-commit"),
    bash("clone to a place outside", Changes, "git clone -q . @OUT@/clone"),
    bash("make a repository outside", Changes, "git init -q @OUT@/new"),
    bash("add a worktree outside", Changes, "git worktree add -q @OUT@/tree2"),
    bash("unpack to a place outside", Changes, "tar -cf - README.md | tar -C @OUT@ -xf -"),
    bash(
        "write in a mount namespace of one's own",
        Changes,
        "unshare -Urm bash -c 'mount --bind @OUT@ vendor; echo x > vendor/precious.txt'",
    )
    .if_it_can(),
    bash("write in the first process's mounts", Changes, "nsenter -t 1 -m bash -c 'echo x > @OUT@/precious.txt'").as_root().if_it_can(),
    bash("write in a changed root", Changes, "chroot / /bin/bash -c 'echo x > @OUT@/precious.txt'").as_root(),
    bash("write below /etc", Says, "touch /etc/ferrum-test && rm /etc/ferrum-test && echo won-$((6*7))").as_root(),
    bash("write below /usr", Says, "touch /usr/lib/ferrum-test && rm /usr/lib/ferrum-test && echo won-$((6*7))").as_root(),
    bash(
        "write with descriptors of another process",
        Changes,
        "for fd in /proc/[0-9]*/fd/*; do case $(readlink $fd) in *precious*) echo x > $fd;; esac; done 2>/dev/null",
    )
    .after("(exec 7>>@OUT@/precious.txt; nohup sleep 20 > /dev/null 2>&1 & ) ; true")
    .by_mounts(),
];

#[test]
fn nothing_outside_the_roots_can_be_changed() {
    refuse_all(World::Whole, TABLE);
}
