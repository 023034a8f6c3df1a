//! Tier low, a guard against accidents: what it names as protected stays as it is all the same.

use ferrum_tests::scene::Scene;
use ferrum_tests::who::everyone;

/// A preparation, and an act that changes a protected place of the home.
const ACTS: [(&str, &str); 7] = [
    (
        "true",
        "mv ~/.config ~/.old; mkdir -p ~/.config/ferrum; echo x > ~/.config/ferrum/config.toml",
    ),
    (
        "true",
        "mv ~/.local ~/.old; mkdir -p ~/.local/share/ferrum/sessions; echo x > ~/.local/share/ferrum/sessions/old.jsonl",
    ),
    (
        "true",
        "mv ~/.local/share ~/.local/old; mkdir -p ~/.local/share/ferrum/sessions",
    ),
    (
        "true",
        "mv ~/.cargo ~/.old; mkdir ~/.cargo; echo x > ~/.cargo/credentials.toml",
    ),
    (
        "mkdir -p ~/.config/autostart",
        "mv ~/.config ~/.old; mkdir -p ~/.config/autostart; echo x > ~/.config/autostart/x.desktop",
    ),
    (
        "mv ~/.ssh ~/keys && ln -s keys ~/.ssh",
        "rm ~/.ssh; mkdir ~/.ssh; echo x > ~/.ssh/authorized_keys",
    ),
    (
        "mv ~/.config ~/settings && ln -s settings ~/.config",
        "mv ~/settings ~/.old; mkdir -p ~/settings/ferrum; echo x > ~/settings/ferrum/config.toml",
    ),
];

#[test]
fn low_cannot_move_what_leads_to_protected_places() {
    // At low root has its real authority: such acts are an ordinary user's here.
    for who in everyone().into_iter().filter(|who| !who.is_root()) {
        for (prepare, act) in ACTS {
            for is_confined in [false, true] {
                let scene = Scene::new(&who);
                assert_eq!(scene.bash(prepare).status, Some(0), "{prepare}");
                let before = scene.protected();
                if is_confined {
                    let ran = scene.command(act, &["--safety", "low"]);
                    // The text policy may see it first; a file tells what the walls say.
                    scene.write(&scene.root().join("probe-act.sh"), act);
                    let again = scene.command("bash probe-act.sh", &["--safety", "low"]);
                    assert_eq!(again.outcome(), "done", "{}", again.output.all());
                    let changes = before.changes(&scene.protected());
                    assert_eq!(
                        changes,
                        Vec::<String>::new(),
                        "{act}: {} {}",
                        ran.text(),
                        again.text()
                    );
                } else {
                    let _ = scene.bash(act);
                    let changes = before.changes(&scene.protected());
                    assert!(!changes.is_empty(), "{act} proves nothing");
                }
            }
        }
    }
}
