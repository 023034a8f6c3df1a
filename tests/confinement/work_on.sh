# The user goes on working in the checkout after the agent has left it.
exec < /dev/null
export GIT_TERMINAL_PROMPT=0 EDITOR=true
work() {
    git status
    git st
    echo more >> README.md
    git add -A
    git diff HEAD
    git log -1 -p
    git commit -qm work
    git commit -q --amend
    git checkout -q -b "after-$RANDOM"
    git stash
}
work
git push -q origin HEAD:refs/heads/pushed
git fetch origin
timeout 5 git fetch ssh://127.0.0.1:1/x
echo url=https://host.invalid | timeout 5 git credential fill
git submodule update
for checkout in sub vendor/nested ../tree ../tree/sub; do
    (cd "$checkout" && work)
done
bash -ic true
