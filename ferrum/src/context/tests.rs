use super::*;
use crate::agent::turn::tests::granted;
use crate::tools::catalog;
use ferrum_proto::seal::Selection;
use ferrum_proto::terms::PathBytes;
use std::os::unix::fs::symlink;

/// A home with a configuration directory, and a repository in it.
struct Ground {
    _directory: tempfile::TempDir,
    dirs: Dirs,
    granted: Granted,
    untrusted: bool,
    external_links: bool,
    changed: BTreeSet<PathBuf>,
}

impl Ground {
    /// The working directory is `sub` of the repository.
    fn new(sub: &str) -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        let home = directory.path().canonicalize().expect("exists");
        let top = home.join("desk/project");
        std::fs::create_dir_all(top.join(sub)).expect("directory");
        let mut granted = granted(&[]);
        granted.cwd = PathBytes::from(top.join(sub).as_path());
        granted.work_tree = Some(PathBytes::from(top.as_path()));
        granted.skills = Selection {
            inherit: true,
            ..Selection::default()
        };
        Self {
            dirs: Dirs {
                config: home.join(".config/ferrum"),
                data: home.join("data"),
                cache: home.join("cache"),
                runtime: None,
                home,
            },
            granted,
            untrusted: false,
            external_links: false,
            changed: BTreeSet::new(),
            _directory: directory,
        }
    }

    /// `~` is the home, anything else lies in the repository.
    fn path(&self, name: &str) -> PathBuf {
        match name.strip_prefix("~/") {
            Some(name) => self.dirs.home.join(name),
            None => top(&self.granted).join(name),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "scenery")]
    fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("directory");
        std::fs::write(path, text).expect("file");
    }

    fn skill(&self, name: &str, title: &str, description: &str) {
        self.put(
            name,
            format!("---\nname: {title}\ndescription: {description}\n---\nBody\n"),
        );
    }

    fn load(&self) -> Context {
        let sources = Sources {
            dirs: &self.dirs,
            granted: &self.granted,
            external_links: self.external_links,
            untrusted: self.untrusted,
            changed: &self.changed,
        };
        let runtime = Runtime {
            version: "0.1.0",
            provider: "p",
            model: "m",
            provider_model: "m",
            thinking: "off",
            max_context_tokens: 1,
            mcp_enabled: false,
            diff_mode: "unified",
            config_dir: &self.dirs.config,
            granted: &self.granted,
        };
        load(&sources, &runtime).expect("usable")
    }

    fn system(&self) -> String {
        self.load().messages[0].visible_text()
    }
}

fn told(context: &Context, part: &str) -> bool {
    context.notices.iter().any(|notice| notice.contains(part))
}

#[test]
fn the_first_request_is_small() {
    let ground = Ground::new("");
    let prompt = ground.system();
    // Names and JSON around each tool take some more; 9 KB is what the whole request may have.
    let tools: usize = catalog::ALL
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.parameters.len() + 90)
        .sum();
    assert!(prompt.len() + tools < 7_500, "{} + {tools}", prompt.len());
}

#[test]
fn files_stand_from_general_to_specific() {
    let ground = Ground::new("sub");
    ground.put("~/.config/ferrum/AGENTS.md", "RULE-G");
    ground.put("~/AGENTS.md", "RULE-H\n");
    ground.put("AGENTS.md", "\u{feff}# RULE-P\r\n- one\r\n");
    ground.put("sub/agents.md", "RULE-S\n");
    let system = ground.system();
    let at: Vec<usize> = ["RULE-G", "RULE-H", "# RULE-P\n- one\n", "# agents.md\n\nRULE-S"]
        .iter()
        .map(|rule| system.find(rule).unwrap_or_else(|| panic!("{rule} in {system}")))
        .collect();
    assert!(at.is_sorted(), "{at:?}");
    assert!(!system.contains('\u{feff}'));
    assert!(ground.load().notices.is_empty());
}

#[test]
fn the_budget_goes_to_the_specific_file_first_and_a_cut_is_marked() {
    let ground = Ground::new("");
    ground.put("~/.config/ferrum/AGENTS.md", "g".repeat(140_000));
    ground.put("AGENTS.md", "☃".repeat(20_000));
    let context = ground.load();
    let system = context.messages[0].visible_text();
    let block = &system[system.find("Instructions from files").expect("the block")..];
    assert!(block.len() <= 128 << 10, "{}", block.len());
    assert!(block.len() > (128 << 10) - 12, "{}", block.len());
    assert!(block.contains(&"☃".repeat(20_000)) && block.contains("of 140000 bytes are shown]"));
    assert!(told(&context, "of 140000 bytes fit"), "{:?}", context.notices);
    // A file that is larger alone.
    ground.put("AGENTS.md", "☃".repeat(100_000));
    let context = ground.load();
    let system = context.messages[0].visible_text();
    let block = &system[system.find("Instructions from files").expect("the block")..];
    assert!(block.len() <= 128 << 10 && !block.contains('\u{fffd}') && block.contains("[truncated"));
    assert!(
        told(&context, ".config/ferrum/AGENTS.md: the 128 KiB"),
        "{:?}",
        context.notices
    );
}

#[test]
fn the_budget_holds_on_both_sides_of_its_end() {
    let ground = Ground::new("");
    let size = |bytes: usize| {
        ground.put("AGENTS.md", "x".repeat(bytes));
        let context = ground.load();
        let system = context.messages[0].visible_text();
        let block = system.len() - system.find("Instructions from files").expect("the block");
        (block, context.notices.is_empty())
    };
    let (small, _) = size(1_000);
    // The preamble is set apart by two bytes, where a file is by seven.
    let most = (128 << 10) - 5 - (small - 1_000);
    assert_eq!(size(most), ((128 << 10) - 5, true));
    let (block, quiet) = size(most + 1);
    assert!(block <= 128 << 10 && !quiet);
}

#[test]
fn odd_files_are_told_and_left_out() {
    let ground = Ground::new("");
    ground.put("~/.ssh/id_case", "PRIVATE-KEY-CASE");
    symlink(ground.path("~/.ssh/id_case"), ground.path("AGENTS.md")).expect("link");
    nix::unistd::mkfifo(&ground.path("agents.md"), nix::sys::stat::Mode::S_IRWXU).expect("pipe");
    ground.put("~/desk/AGENTS.md/x", "a directory");
    let context = ground.load();
    assert!(!context.messages[0].visible_text().contains("PRIVATE-KEY-CASE"));
    for part in [
        "project/AGENTS.md: leads out of",
        "agents.md: is not a regular file",
        "desk/AGENTS.md: is not",
    ] {
        assert!(told(&context, part), "{part}: {:?}", context.notices);
    }
}

#[test]
fn one_file_with_two_names_is_given_once_and_bad_bytes_are_told() {
    let ground = Ground::new("sub");
    ground.put("AGENTS.md", b"ONCE caf\xe9");
    symlink("AGENTS.md", ground.path("agents.md")).expect("link");
    symlink("../AGENTS.md", ground.path("sub/AGENTS.md")).expect("link");
    let context = ground.load();
    assert_eq!(context.messages[0].visible_text().matches("ONCE").count(), 1);
    assert!(context.messages[0].visible_text().contains("ONCE caf\u{fffd}"));
    assert!(told(&context, "byte 8 is not UTF-8"), "{:?}", context.notices);
    ground.put("AGENTS.md", "rules\u{e0041}\u{e0042}");
    assert!(told(&ground.load(), "it holds 2 characters that nobody sees"));
}

#[test]
fn nothing_of_an_untrusted_checkout_gets_into_the_system_prompt() {
    let mut ground = Ground::new("");
    ground.untrusted = true;
    ground.put("~/.config/ferrum/AGENTS.md", "RULE-G");
    ground.put("AGENTS.md", "RULE-P");
    ground.put("~/desk/AGENTS.md", "RULE-ABOVE");
    ground.skill(".ferrum/skills/p/SKILL.md", "theirs", "SKILL-P");
    ground.skill("~/.config/ferrum/skills/g/SKILL.md", "mine", "SKILL-G");
    let context = ground.load();
    let texts: Vec<String> = context.messages.iter().map(Message::visible_text).collect();
    assert!(texts[0].contains("RULE-G") && texts[0].contains("SKILL-G"));
    for part in ["RULE-P", "RULE-ABOVE", "SKILL-P"] {
        assert!(!texts[0].contains(part) && texts[1].contains(part), "{part}");
    }
    let roles: Vec<Role> = context.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant]);
}

#[test]
fn skills_are_found_in_all_places_and_forms() {
    let ground = Ground::new("sub");
    ground.skill("~/.agents/skills/deep/er/a/SKILL.md", "a", "A");
    ground.skill("~/.config/ferrum/skills/b.md", "b", "B");
    ground.put("~/.config/ferrum/skills/README.md", "no skill");
    ground.skill(".agents/skills/c/SKILL.md", "c", "C");
    ground.skill(".agents/skills/flat.md", "flat", "not here");
    ground.skill("sub/.ferrum/skills/d/SKILL.md", "d", "D");
    ground.put(
        "sub/.ferrum/skills/named/SKILL.md",
        "---\ndescription: by its directory\n---\n",
    );
    let system = ground.system();
    for line in [
        "- a: A (",
        "- b: B (",
        "- c: C (",
        "- d: D (.ferrum/skills/d/SKILL.md)",
        "- named: by its directory (",
    ] {
        assert!(system.contains(line), "{line} in {system}");
    }
    assert!(!system.contains("- flat") && ground.load().notices.is_empty());
}

#[test]
fn a_projects_skill_does_not_replace_the_users_and_a_broken_one_hides_no_other() {
    let ground = Ground::new("sub");
    ground.skill("~/.config/ferrum/skills/f/SKILL.md", "f", "from home");
    ground.skill(".ferrum/skills/f/SKILL.md", "f", "from project");
    ground.skill(".ferrum/skills/g/SKILL.md", "g", "outer");
    ground.skill("sub/.ferrum/skills/g/SKILL.md", "g", "inner");
    ground.put(".ferrum/skills/bad/SKILL.md", "---\nname: [\n---\n");
    ground.skill(".ferrum/skills/odd/SKILL.md", "Odd Name", "x");
    ground.skill(".ferrum/skills/long/SKILL.md", "long", &"x".repeat(1025));
    ground.put(".ferrum/skills/big/SKILL.md", vec![b'x'; (256 << 10) + 1]);
    ground.skill("~/.ssh/SKILL.md", "leak", "PRIVATE");
    std::fs::create_dir_all(ground.path(".ferrum/skills/leak")).expect("directory");
    symlink(
        ground.path("~/.ssh/SKILL.md"),
        ground.path(".ferrum/skills/leak/SKILL.md"),
    )
    .expect("link");
    let context = ground.load();
    let system = context.messages[0].visible_text();
    assert!(system.contains("- f: from home") && !system.contains("from project"));
    assert!(system.contains("- g: inner") && !system.contains("outer") && !system.contains("PRIVATE"));
    for part in [
        "a project's skill does not replace yours",
        "skill g of",
        "bad/SKILL.md: has front matter that is no YAML",
        "\"Odd Name\"",
        "above 1024 bytes",
        "larger than 256 KiB",
        "leak/SKILL.md: leads out of",
    ] {
        assert!(told(&context, part), "{part}: {:?}", context.notices);
    }
    assert_eq!(context.notices.len(), 7);
}

#[test]
fn links_of_the_users_skills_lead_out_only_where_the_configuration_says_so() {
    let mut ground = Ground::new("");
    ground.skill("~/elsewhere/one/SKILL.md", "one", "ONE");
    std::fs::create_dir_all(ground.path("~/.config/ferrum/skills")).expect("directory");
    symlink(
        ground.path("~/elsewhere/one"),
        ground.path("~/.config/ferrum/skills/one"),
    )
    .expect("link");
    assert!(told(&ground.load(), "one/SKILL.md: leads out of"));
    ground.external_links = true;
    assert!(ground.system().contains("- one: ONE"));
}

#[test]
fn the_grant_selects_skills_and_their_number_is_bounded() {
    let mut ground = Ground::new("");
    for number in 0..257 {
        ground.skill(
            &format!(".ferrum/skills/s{number}/SKILL.md"),
            &format!("s{number}"),
            "x",
        );
    }
    let context = ground.load();
    assert_eq!(
        context.messages[0].visible_text().matches("/SKILL.md)").count(),
        256
    );
    assert!(told(&context, "257 skills were found"));
    ground.granted.skills.allow = Some(vec!["s1".into(), "s2".into(), "mine".into()]);
    ground.granted.skills.deny = vec!["s2".into()];
    ground.skill("~/.config/ferrum/skills/mine/SKILL.md", "mine", "x");
    let system = ground.system();
    assert!(system.contains("- s1:") && system.contains("- mine:") && !system.contains("- s2:"));
    ground.granted.skills.inherit = false;
    assert!(!ground.system().contains("- mine:"));
}

#[test]
fn a_loop_of_links_ends() {
    let ground = Ground::new("");
    ground.skill(".ferrum/skills/a/SKILL.md", "a", "A");
    for name in ["x", "y"] {
        std::fs::create_dir_all(ground.path(".ferrum/skills/d")).expect("directory");
        symlink(
            ground.path(".ferrum/skills"),
            ground.path(".ferrum/skills/d").join(name),
        )
        .expect("link");
    }
    assert_eq!(ground.system().matches("- a: A").count(), 1);
}

#[test]
fn system_md_replaces_the_built_in_text_and_an_odd_one_is_an_error() {
    let ground = Ground::new("");
    ground.put("~/.config/ferrum/system.md", "MINE {{safety}}\n");
    ground.put("AGENTS.md", "RULE");
    let system = ground.system();
    assert!(
        system.starts_with("MINE medium\n\nInstructions from files") && !system.contains("You are Ferrum")
    );
    let sources = Sources {
        dirs: &ground.dirs,
        granted: &ground.granted,
        external_links: false,
        untrusted: false,
        changed: &ground.changed,
    };
    for bytes in [b"caf\xe9".to_vec(), vec![b'x'; (256 << 10) + 1]] {
        ground.put("~/.config/ferrum/system.md", bytes);
        let runtime = Runtime {
            version: "",
            provider: "",
            model: "",
            provider_model: "",
            thinking: "",
            max_context_tokens: 0,
            mcp_enabled: false,
            diff_mode: "",
            config_dir: Path::new("/"),
            granted: &ground.granted,
        };
        let why = load(&sources, &runtime).expect_err("unusable");
        assert!(why.contains("system.md: is"), "{why}");
    }
}

#[test]
fn what_a_tool_changed_is_information_until_it_is_accepted() {
    let mut ground = Ground::new("sub");
    ground.put("AGENTS.md", "RULE-P");
    ground.put("sub/AGENTS.md", "RULE-S");
    ground.skill(".ferrum/skills/a/SKILL.md", "a", "SKILL-A");
    ground.changed = [
        ground.path("sub/AGENTS.md"),
        ground.path(".ferrum/skills/a/SKILL.md"),
    ]
    .into();
    let context = ground.load();
    let (system, rest) = (
        context.messages[0].visible_text(),
        context.messages[1].visible_text(),
    );
    assert!(system.contains("RULE-P") && !system.contains("RULE-S") && !system.contains("SKILL-A"));
    assert!(rest.contains("RULE-S") && rest.contains("SKILL-A"));
    assert_eq!(
        context
            .notices
            .iter()
            .filter(|n| n.contains("changed by a tool"))
            .count(),
        2
    );
}
