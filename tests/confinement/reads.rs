//! Secrets of the home, of the machine and of other processes.

use super::Proof::{Leaks, Says};
use super::{Escape, World, bash, refuse_all};

pub(super) const TABLE: &[Escape] = &[
    bash(
        "read a private key by its path",
        Leaks,
        "cat @HOME@/.ssh/id_ed25519",
    ),
    bash(
        "read cloud credentials by the home's own path",
        Leaks,
        "cat @HOME@/.aws/credentials @HOME@/.azure/token",
    ),
    bash("read a private document", Leaks, "cat @HOME@/Documents/diary.txt"),
    bash(
        "read Ferrum's own keys",
        Leaks,
        "cat @HOME@/.config/ferrum/auth.json",
    ),
    bash(
        "read an old session",
        Leaks,
        "cat @HOME@/.local/share/ferrum/sessions/old.jsonl",
    ),
    bash(
        "read a registry token beside the toolchain",
        Leaks,
        "cat @HOME@/.cargo/credentials.toml",
    ),
    bash(
        "read a browser's passwords",
        Leaks,
        "cat @HOME@/.mozilla/firefox/p/logins.json",
    ),
    bash(
        "read tokens of package managers",
        Leaks,
        "cat @HOME@/.npmrc @HOME@/.pypirc",
    ),
    bash("read upwards with dots", Leaks, "cat ../../.netrc"),
    bash(
        "read through a link to a file",
        Leaks,
        "ln -s @HOME@/.netrc probe-l; cat probe-l",
    ),
    bash(
        "read through a link to a directory",
        Leaks,
        "ln -s @HOME@ probe-d; cat probe-d/.netrc",
    ),
    bash(
        "read through a hard link",
        Leaks,
        "ln @HOME@/Documents/diary.txt probe-h; cat probe-h",
    ),
    bash(
        "read by the root link of oneself",
        Leaks,
        "cat /proc/self/root@HOME@/.netrc",
    ),
    bash(
        "read by the directory link of oneself",
        Leaks,
        "cat /proc/self/cwd/../../.netrc",
    ),
    bash(
        "read by another process's root link",
        Leaks,
        "cat /proc/@VICTIM@/root@HOME@/.netrc",
    ),
    bash(
        "read by the first process's root link",
        Leaks,
        "cat /proc/1/root@HOME@/.netrc",
    )
    .as_root()
    .if_it_can(),
    bash(
        "search the whole home",
        Leaks,
        "grep -rsh . @HOME@/Documents @HOME@/.kube @HOME@/.docker",
    ),
    bash(
        "copy the home into the root",
        Leaks,
        "cp -r @HOME@/Documents probe-c; cat probe-c/diary.txt",
    ),
    bash("pack the home", Leaks, "tar -C @HOME@ -cf - .pgpass | tar -xOf -"),
    bash(
        "read by redirection",
        Leaks,
        "read -r x < @HOME@/.npmrc; echo \"$x\"",
    ),
    bash("read by sourcing", Leaks, "source @HOME@/.pgpass"),
    bash(
        "read by git",
        Leaks,
        "git diff --no-index /dev/null @HOME@/.netrc",
    ),
    bash(
        "read by an interpreter line",
        Leaks,
        "printf '#!/bin/cat @HOME@/.netrc\\n' > probe-x; chmod +x probe-x; ./probe-x",
    ),
    bash(
        "read with a python program",
        Leaks,
        "python3 -c 'print(open(\"@HOME@/.git-credentials\").read())'",
    ),
    bash(
        "read by opening a path handle again",
        Leaks,
        r#"python3 -c '
import os
handle = os.open("@HOME@/.netrc", os.O_PATH)
print(open(f"/proc/self/fd/{handle}").read())'"#,
    ),
    bash(
        "read by a file handle",
        Leaks,
        r#"python3 -c '
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("bytes", ctypes.c_char * 128)]
handle = Handle(); handle.size = 128; mount = ctypes.c_int()
libc.name_to_handle_at(-100, b"@OUT@/secret.txt", ctypes.byref(handle), ctypes.byref(mount), 0)
file = libc.open_by_handle_at(os.open("@ROOT@", 0), ctypes.byref(handle), 0)
print(os.read(file, 100))'"#,
    )
    .as_root()
    .if_it_can(),
    bash(
        "read in a new user namespace",
        Leaks,
        "unshare -Ur cat @HOME@/.netrc",
    )
    .if_it_can(),
    bash(
        "read in a changed root",
        Leaks,
        "chroot / /bin/cat @OUT@/secret.txt",
    )
    .as_root(),
    bash(
        "read in the first process's mounts",
        Leaks,
        "nsenter -t 1 -m cat @OUT@/secret.txt",
    )
    .as_root()
    .if_it_can(),
    bash(
        "read through a bind mount",
        Leaks,
        "mkdir probe-m; mount --bind @OUT@ probe-m; cat probe-m/secret.txt; umount probe-m",
    )
    .as_root()
    .if_it_can(),
    bash("read the environment", Leaks, "env"),
    bash(
        "read the environment of every process",
        Leaks,
        r"for file in /proc/[0-9]*/environ; do tr '\0' '\n' < $file; done 2>/dev/null",
    ),
    bash(
        "read the environment of every thread and parent",
        Leaks,
        r"pid=$$; while [ ${pid:-0} -gt 0 ]; do cat /proc/$pid/task/*/environ; pid=$(awk '/^PPid/{print $2}' /proc/$pid/status); done 2>/dev/null | tr '\0' '\n'",
    ),
    bash(
        "learn that a private file exists",
        Says,
        "stat @HOME@/Documents/diary.txt && echo won-$((6*7))",
    )
    .by_mounts(),
    bash(
        "list the home",
        Says,
        "ls -a @HOME@ | grep -q Documents && echo won-$((6*7))",
    ),
    bash(
        "watch the home",
        Says,
        r#"python3 -c '
import ctypes
libc = ctypes.CDLL(None)
if libc.inotify_add_watch(libc.inotify_init(), b"@HOME@/Documents", 0xfff) > 0: print(f"won-{6*7}")'"#,
    )
    .by_mounts(),
    bash(
        "read password hashes",
        Says,
        "grep -q '^root:' /etc/shadow && echo won-$((6*7))",
    )
    .as_root(),
    bash(
        "read the disk itself",
        Says,
        "disk=$(lsblk -rnpo NAME | head -1); [ \"$(head -c 16 $disk | wc -c)\" = 16 ] && echo won-$((6*7))",
    )
    .as_root()
    .if_it_can(),
];

#[test]
fn secrets_cannot_be_read() {
    refuse_all(World::Whole, TABLE);
}
