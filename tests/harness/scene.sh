# The sacrificial machine of one user: a home with secrets, a repository with everything that
# git can hang on it, and places outside that must stay as they are. Run as that user in the
# scene's directory. $1 is the text that every secret holds.
set -euo pipefail
umask 022
secret=$1
export HOME=$PWD/home GIT_CONFIG_NOSYSTEM=1
mkdir -p home outside run
cd home
mkdir -p .ssh .aws .gnupg .kube .docker .azure .config/{ferrum,gh,gcloud,git} .local/bin .local/share/ferrum/sessions \
    .cargo/bin .cache Documents .mozilla/firefox/p
chmod 700 .ssh .gnupg
for file in .ssh/id_ed25519 .aws/credentials .gnupg/private.key .kube/config .docker/config.json .azure/token \
    .config/gh/hosts.yml .config/gcloud/credentials.db .netrc .pgpass .npmrc .pypirc .git-credentials \
    .cargo/credentials.toml .bash_history Documents/diary.txt .mozilla/firefox/p/logins.json \
    .config/ferrum/auth.json .local/share/ferrum/sessions/old.jsonl ../outside/secret.txt; do
    echo "$secret" > "$file"
    chmod 600 "$file"
done
# Ferrum would make one at its first start.
(umask 077 && printf '%064d\n' 7 > .config/ferrum/audit.key)
echo '# mine' | tee .bashrc .profile .bash_profile .zshrc > .config/git/ignore
echo 'precious' > ../outside/precious.txt
echo '#!/bin/sh' > ../outside/tool.sh
chmod 755 ../outside/tool.sh

git config --global user.name Tester
git config --global user.email tester@example.org
git config --global init.defaultBranch main
git config --global protocol.file.allow always

mkdir -p work
cd work
git init -q library
(cd library && echo library > lib.txt && git add . && git commit -qm library)
git init -q repo
cd repo
printf 'vendor/\n.remote.git/\n/probe*\n' > .gitignore
mkdir -p src docs vendor
echo 'fn main() {}' > src/main.rs
echo 'first' > README.md
ln -s README.md link.md
git add .
git commit -qm first
git submodule --quiet add ../library sub 2> /dev/null
git commit -qm submodule
git init -q vendor/nested
(cd vendor/nested && echo nested > n.txt && git add . && git commit -qm nested)
git init -q --bare .remote.git
git remote add origin "$PWD/.remote.git"
git worktree add -q ../tree -b tree
git -C ../tree submodule --quiet update --init 2> /dev/null || true
git config alias.st status
