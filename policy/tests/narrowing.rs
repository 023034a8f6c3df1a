//! narrow() never widens, and says who narrowed; judge() on files.

use policy::origin::Source;
use policy::{
    Action, Grant, Ground, Isolation, NarrowError, Network, ProjectFile, ProjectPolicy, Require, ShellMode,
    Target, Tier, Tool, UserPolicy, Verdict, Wish, judge, narrow,
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn user() -> UserPolicy {
    UserPolicy {
        ceiling: Tier::Low,
        tier: Tier::Medium,
        network: None,
        shell: ShellMode::Auto,
        require: None,
        tools_allow: None,
        tools_deny: Vec::new(),
        max_tool_rounds: 0,
        writable_roots: vec!["/project".into()],
        readable_roots: vec!["/data".into()],
    }
}

fn project(text: &str) -> ProjectFile {
    let policy = ProjectPolicy::parse(text).expect("a valid project file");
    let resolve = |roots: &Option<Vec<String>>| {
        roots.as_ref().map(|roots| {
            roots
                .iter()
                .map(|root| Path::new("/project").join(root))
                .collect::<Vec<PathBuf>>()
        })
    };
    ProjectFile {
        path: "/project/.ferrum/config.toml".into(),
        directory: "/project".into(),
        writable_roots: resolve(&policy.writable_roots),
        readable_roots: resolve(&policy.readable_roots),
        policy,
    }
}

fn wish(tier: Tier) -> Wish {
    Wish {
        tier: Some(tier),
        ..Wish::default()
    }
}

fn tools(names: &[&str]) -> Wish {
    Wish {
        tools: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..Wish::default()
    }
}

fn refused(user: &UserPolicy, file: &str, wish: &Wish) -> NarrowError {
    narrow(user, &[project(file)], wish).expect_err("refused")
}

#[test]
fn a_wish_lies_between_ceiling_and_floor() {
    let raised = UserPolicy {
        ceiling: Tier::Medium,
        ..user()
    };
    assert!(refused(&raised, "", &wish(Tier::Low)).message.contains("ceiling"));
    let error = refused(&user(), "safety = \"high\"", &wish(Tier::Medium));
    assert!(
        error.message.contains("/project/.ferrum/config.toml"),
        "{error:?}"
    );
    let grant = narrow(&user(), &[project("safety = \"high\"")], &Wish::default()).expect("raised");
    assert_eq!((grant.tier(), grant.floor()), (Tier::High, Tier::High));
    assert!(grant.notices().iter().any(|notice| notice.contains("raised")));
    let low = narrow(&user(), &[project("safety = \"low\"")], &Wish::default()).expect("narrows nothing");
    assert_eq!(low.tier(), Tier::Medium);
}

#[test]
fn the_network_has_a_default_per_tier_and_a_project_caps_it() {
    let network = |user: &UserPolicy, file: &str, tier| {
        narrow(user, &[project(file)], &wish(tier))
            .expect("granted")
            .network()
    };
    assert_eq!(network(&user(), "", Tier::Low), Network::Full);
    assert_eq!(network(&user(), "", Tier::Medium), Network::Private);
    assert_eq!(network(&user(), "", Tier::High), Network::None);
    let open = UserPolicy {
        network: Some(Network::Full),
        ..user()
    };
    assert_eq!(network(&open, "", Tier::Medium), Network::Full);
    assert_eq!(
        network(&open, "[tools]\nnetwork = \"none\"", Tier::Medium),
        Network::None
    );
    assert_eq!(
        network(&user(), "[tools]\nnetwork = \"full\"", Tier::Medium),
        Network::Private
    );
    let wished = Wish {
        network: Some(Network::Full),
        ..Wish::default()
    };
    assert_eq!(
        narrow(&user(), &[], &wished).expect("wished").network(),
        Network::Full
    );
    assert!(
        refused(&user(), "[tools]\nnetwork = \"private\"", &wished)
            .message
            .contains("config.toml")
    );
}

#[test]
fn a_project_may_force_static_and_a_stricter_isolation() {
    let file = "[tools]\nshell = \"static\"\n[isolation]\nrequire = \"full\"\n";
    let grant = narrow(&user(), &[project(file)], &Wish::default()).expect("granted");
    assert_eq!(
        (grant.shell(), grant.require()),
        (ShellMode::Static, Require::Full)
    );
    let loose = narrow(
        &user(),
        &[project("[isolation]\nrequire = \"any\"")],
        &Wish::default(),
    )
    .expect("granted");
    assert_eq!(loose.require(), Require::Kernel);
    let at = |require, file: &str, tier| {
        let user = UserPolicy { require, ..user() };
        let grant = narrow(&user, &[project(file)], &wish(tier)).expect("granted");
        grant.require()
    };
    // Low runs without the walls that it lacks, unless somebody asks for them.
    assert_eq!(at(None, "", Tier::Low), Require::Any);
    assert_eq!(at(Some(Require::Kernel), "", Tier::Low), Require::Kernel);
    assert_eq!(
        at(None, "isolation.require = \"kernel\"", Tier::Low),
        Require::Kernel
    );
    assert_eq!(at(Some(Require::Any), "", Tier::High), Require::Any);
    let auto = Wish {
        shell: Some(ShellMode::Auto),
        ..Wish::default()
    };
    assert!(refused(&user(), file, &auto).message.contains("shell"));
}

#[test]
fn tools_are_capped_removed_and_named() {
    let grant = narrow(
        &user(),
        &[project("[tools]\ndeny = [\"bash\"]")],
        &Wish::default(),
    )
    .expect("granted");
    assert!(!grant.tools().contains(&Tool::Bash) && !grant.tools().contains(&Tool::Wait));
    assert!(
        grant
            .tools_removed()
            .iter()
            .any(|removed| removed.tool == "bash" && removed.reason.contains("config.toml"))
    );
    assert!(grant.tools_removed().iter().any(|removed| removed.tool == "wait"));
    let high = narrow(&user(), &[], &wish(Tier::High)).expect("granted");
    assert!(!high.tools().contains(&Tool::Write) && !high.tools().contains(&Tool::Edit));
    assert!(narrow(&user(), &[], &tools(&["frobnicate"])).is_err());
    assert!(
        refused(&user(), "[tools]\ndeny = [\"bash\"]", &tools(&["bash"]))
            .message
            .contains("deny")
    );
    assert_eq!(narrow(&user(), &[], &tools(&[])).expect("no tools").tools(), []);
    assert_eq!(
        narrow(&user(), &[], &tools(&["read", "ls"]))
            .expect("two")
            .tools(),
        [Tool::Read, Tool::Ls]
    );
}

#[test]
fn roots_lie_inside_the_users_by_components() {
    let granted = |file: &str| narrow(&user(), &[project(file)], &Wish::default());
    let sub = granted("[tools]\nwritable_roots = [\"sub\"]").expect("inside");
    assert_eq!(sub.writable_roots(), [PathBuf::from("/project/sub")]);
    assert!(granted("[tools]\nwritable_roots = [\"/\"]").is_err());
    assert!(granted("[tools]\nwritable_roots = [\"/projectile\"]").is_err());
    assert!(granted("[tools]\nreadable_roots = [\"/etc\"]").is_err());
    assert!(granted("[tools]\nreadable_roots = [\"/data/x\"]").is_ok());
    let two = [
        project("[tools]\nwritable_roots = [\"a\"]"),
        project("[tools]\nwritable_roots = [\"a/b\", \"c\"]"),
    ];
    let grant = narrow(&user(), &two, &Wish::default()).expect("both inside");
    assert_eq!(grant.writable_roots(), [PathBuf::from("/project/a/b")]);
}

/// A session may stand anywhere in a project: what it has is cut to what the project allows.
#[test]
fn a_projects_roots_are_cut_to_where_the_session_stands() {
    for (stands, asked, left) in [
        ("/project", "\"src\"", &["/project/src"] as &[&str]),
        ("/project/src/deep", "\"src\"", &["/project/src/deep"]),
        ("/project/docs", "\"src\"", &[]),
        ("/project/docs", "\"src\", \"docs\"", &["/project/docs"]),
        ("/project/docs", "\".\"", &["/project/docs"]),
        ("/project/docs", "", &[]),
        ("/project/srcs", "\"src\"", &[]),
    ] {
        let user = UserPolicy {
            writable_roots: vec![stands.into()],
            ..user()
        };
        let file = format!("[tools]\nwritable_roots = [{asked}]");
        let grant = narrow(&user, &[project(&file)], &Wish::default()).expect("narrowed");
        let left: Vec<PathBuf> = left.iter().map(PathBuf::from).collect();
        assert_eq!(grant.writable_roots(), left, "{stands}: {asked}");
        let told = grant.notices().iter().any(|notice| {
            notice.starts_with("nothing is writable: tools.writable_roots") && notice.contains("config.toml")
        });
        assert_eq!(told, left.is_empty(), "{stands}: {asked}: {:?}", grant.notices());
    }
    // What is neither the project's nor the user's is asked for in vain, wherever one stands.
    for asked in ["/", "/etc", "/projectile"] {
        let file = format!("[tools]\nwritable_roots = [\"docs\", {asked:?}]");
        assert!(
            refused(&user(), &file, &Wish::default())
                .message
                .contains("outside"),
            "{asked}"
        );
    }
}

#[test]
fn rounds_skills_and_servers_only_shrink() {
    let files = [
        project(
            "max_tool_rounds = 9\n[skills]\nallow = [\"a\", \"b\"]\n[mcp]\nenabled = true\ndeny = [\"x\"]",
        ),
        project(
            "max_tool_rounds = 20\n[skills]\nallow = [\"b\", \"c\"]\ninherit_global = false\n[mcp]\nenabled = false",
        ),
    ];
    let grant = narrow(&user(), &files, &Wish::default()).expect("granted");
    assert_eq!(grant.max_tool_rounds(), 9);
    assert_eq!(grant.skills().allow, Some(vec!["b".to_owned()]));
    assert!(!grant.skills().inherit && !grant.mcp_enabled());
    assert_eq!(grant.mcp().deny, ["x"]);
}

fn ground() -> Ground {
    Ground {
        cwd: "/project".into(),
        home: "/home/user".into(),
        writable: vec!["/project".into()],
        readable: Vec::new(),
        private: vec!["/tmp".into()],
        protected: vec!["/project/.ferrum".into(), "/home/user/.config/ferrum".into()],
        isolation: Isolation::Full,
    }
}

fn code(tier: Tier, action: &Action<'_>) -> &'static str {
    let grant = narrow(&user(), &[], &wish(tier)).expect("granted");
    match judge(&grant, &ground(), action) {
        Verdict::Allow => "",
        Verdict::Refuse(refusal) => refusal.code,
    }
}

#[test]
fn files_are_judged_by_place_and_kind() {
    let file = Target::File { links: 1 };
    for (tier, path, target, expected) in [
        (Tier::Medium, "/project/a", file, ""),
        (Tier::Medium, "/project/new", Target::Absent, ""),
        (Tier::Medium, "/tmp/a", file, ""),
        (Tier::Medium, "/projectile/a", file, "outside-root"),
        (Tier::Low, "/srv/a", file, ""),
        (Tier::Low, "/etc/passwd", file, "protected"),
        (Tier::Low, "/home/user/.ssh/config", Target::Absent, "protected"),
        (
            Tier::Medium,
            "/project/.ferrum/config.toml",
            Target::Absent,
            "protected",
        ),
        (
            Tier::Medium,
            "/project/.git/hooks/pre-commit",
            Target::Absent,
            "protected",
        ),
        (Tier::Medium, "/project/a", Target::File { links: 2 }, "hard-link"),
        (Tier::Medium, "/project/a", Target::Symlink, "symlink"),
        (Tier::Medium, "/project/a", Target::Directory, "not-a-file"),
        (Tier::Medium, "/project/a", Target::Special, "not-a-file"),
        (Tier::High, "/project/a", file, "tier"),
    ] {
        let path = Path::new(path);
        assert_eq!(
            code(tier, &Action::Mutate { path, target }),
            expected,
            "{path:?} {target:?}"
        );
    }
    for (tier, path, expected) in [
        (Tier::Medium, "/project/a", ""),
        (Tier::Medium, "/home/user/.aws/credentials", "secret"),
        (Tier::High, "/home/user/.netrc", "secret"),
        (Tier::Low, "/home/user/.netrc", ""),
    ] {
        assert_eq!(
            code(
                tier,
                &Action::Read {
                    path: Path::new(path)
                }
            ),
            expected,
            "{path}"
        );
    }
}

#[test]
fn a_tool_that_is_not_exposed_is_refused_with_the_reason() {
    let grant = narrow(
        &user(),
        &[project("[tools]\nallow = [\"read\"]")],
        &Wish::default(),
    )
    .expect("granted");
    let Verdict::Refuse(refusal) = judge(&grant, &ground(), &Action::Run { command: "ls" }) else {
        panic!("bash is not exposed");
    };
    assert_eq!(refusal.code, "tool");
    assert!(
        refusal.message.contains("not available under the current policy"),
        "{}",
        refusal.message
    );
}

/// The text of a project file, with some keys set.
fn some_text() -> impl Strategy<Value = String> {
    let word = |key: &'static str, words: &'static [&'static str]| {
        prop::option::of(prop::sample::select(words))
            .prop_map(move |word| word.map(|word| format!("{key} = \"{word}\"\n")))
    };
    let list = |key: &'static str, words: &'static [&'static str]| {
        let names = prop::collection::vec(prop::sample::select(words), 0..4);
        prop::option::of(names).prop_map(move |names| names.map(|names| format!("{key} = {names:?}\n")))
    };
    let keys = (
        word("safety", &["low", "medium", "high"]),
        prop::option::of(1u32..50).prop_map(|rounds| rounds.map(|n| format!("max_tool_rounds = {n}\n"))),
        word("tools.network", &["full", "private", "none"]),
        word("tools.shell", &["auto", "static"]),
        word("isolation.require", &["any", "kernel", "full"]),
        list("tools.deny", &["read", "bash", "edit", "grep"]),
        list("tools.allow", &["read", "bash", "wait", "ls"]),
        list("tools.writable_roots", &["", "a", "a/b", "c"]),
        list("tools.readable_roots", &["a", "c", "/data", "/data/x"]),
        list("mcp.deny", &["x", "y"]),
    );
    keys.prop_map(|(a, b, c, d, e, f, g, h, i, j)| {
        [a, b, c, d, e, f, g, h, i, j].into_iter().flatten().collect()
    })
}

/// Someone who stands in the project or below it.
fn some_user() -> impl Strategy<Value = UserPolicy> {
    let place = prop::sample::select(&["/project", "/project/a", "/project/a/b/c", "/project/docs"]);
    place.prop_map(|place| UserPolicy {
        writable_roots: vec![place.into()],
        readable_roots: vec!["/data".into(), "/project/c".into()],
        ..user()
    })
}

fn some_project() -> impl Strategy<Value = ProjectFile> {
    some_text().prop_map(|text| project(&text))
}

fn is_within(inner: &Grant, outer: &Grant) -> bool {
    let rounds = |grant: &Grant| {
        if grant.max_tool_rounds() == 0 {
            u32::MAX
        } else {
            grant.max_tool_rounds()
        }
    };
    inner.tier() >= outer.tier()
        && inner.network() >= outer.network()
        && inner.shell() >= outer.shell()
        && inner.require() >= outer.require()
        && rounds(inner) <= rounds(outer)
        && inner.tools().iter().all(|tool| outer.tools().contains(tool))
        && inner
            .writable_roots()
            .iter()
            .all(|root| outer.writable_roots().iter().any(|outer| root.starts_with(outer)))
        && inner
            .readable_roots()
            .iter()
            .all(|root| outer.readable_roots().iter().any(|outer| root.starts_with(outer)))
}

fn value(grant: &Grant, key: &str) -> String {
    match key {
        "safety" => format!("{:?}", grant.tier()),
        "safety.floor" => format!("{:?}", grant.floor()),
        "tools.network" => format!("{:?}", grant.network()),
        "tools.shell" => format!("{:?}", grant.shell()),
        "isolation.require" => format!("{:?}", grant.require()),
        "tools" => format!("{:?}", grant.tools()),
        "tools.writable_roots" => format!("{:?}", grant.writable_roots()),
        "tools.readable_roots" => format!("{:?}", grant.readable_roots()),
        "max_tool_rounds" => format!("{:?}", grant.max_tool_rounds()),
        "mcp.enabled" => format!("{:?}", grant.mcp_enabled()),
        "mcp.deny" => format!("{:?}", grant.mcp().deny),
        "mcp.allow" => format!("{:?}", grant.mcp().allow),
        "skills.inherit_global" => format!("{:?}", grant.skills().inherit),
        "skills.allow" => format!("{:?}", grant.skills().allow),
        "skills.deny" => format!("{:?}", grant.skills().deny),
        unknown => panic!("no value for {unknown}"),
    }
}

#[test]
fn the_file_and_line_that_narrowed_are_named() {
    let files = [
        ProjectFile {
            path: "/project/.ferrum/config.toml".into(),
            ..project("[tools]\ndeny = [\"bash\"]\nnetwork = \"none\"\n")
        },
        ProjectFile {
            path: "/.ferrum/config.toml".into(),
            ..project("# outer\n\nsafety = \"medium\"\ntools.network = \"none\"\n")
        },
    ];
    let grant = narrow(&user(), &files, &Wish::default()).expect("granted");
    let sources = |key: &str| {
        let decided = grant.origins().iter().find(|decided| decided.key == key);
        decided.map(|decided| decided.sources.clone()).unwrap_or_default()
    };
    let at = |file: &str, line| Source::Project {
        file: file.into(),
        line,
    };
    let (inner, outer) = ("/project/.ferrum/config.toml", "/.ferrum/config.toml");
    assert_eq!(sources("tools.network"), [at(inner, 3), at(outer, 4)]);
    assert_eq!(sources("safety"), [Source::User("safety.tier")]);
    assert_eq!(sources("safety.floor"), [at(outer, 3)]);
    assert_eq!(sources("tools"), [at(inner, 2)]);
    let high = narrow(&user(), &files, &wish(Tier::High)).expect("granted");
    let wished = high.origins().iter().find(|decided| decided.key == "safety");
    assert_eq!(
        wished.map(|decided| decided.sources.clone()),
        Some(vec![Source::Wish])
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_more_project_file_never_widens(user in some_user(), files in prop::collection::vec(some_project(), 0..4), one in some_project()) {
        let without = narrow(&user, &files, &Wish::default()).expect("the project's own roots");
        let mut more = files.clone();
        more.insert(0, one);
        let with = narrow(&user, &more, &Wish::default()).expect("the project's own roots");
        prop_assert!(is_within(&with, &without), "{with:?} is wider than {without:?}");
    }
    /// A file that is not named as an origin of a value has nothing to do with it.
    #[test]
    fn a_value_stays_without_the_files_that_are_not_its_origin(user in some_user(), texts in prop::collection::vec(some_text(), 1..4)) {
        let files: Vec<ProjectFile> = (0..).zip(&texts).map(|(number, text)| ProjectFile {
            path: format!("/project/{number}/config.toml").into(),
            ..project(text)
        }).collect();
        let grant = narrow(&user, &files, &Wish::default()).expect("inside the user's roots");
        let safety = grant.origins().iter().find(|decided| decided.key == "safety").expect("decided");
        for decided in grant.origins() {
            let by_tier = decided.sources.contains(&Source::Tier).then_some(&safety.sources);
            for file in &files {
                let named = decided.sources.iter().chain(by_tier.into_iter().flatten()).any(|source| {
                    matches!(source, Source::Project { file: path, line } if *path == file.path && *line > 0)
                });
                if named {
                    continue;
                }
                let rest: Vec<ProjectFile> = files.iter().filter(|other| *other != file).cloned().collect();
                let without = narrow(&user, &rest, &Wish::default()).expect("inside the user's roots");
                prop_assert_eq!(value(&without, decided.key), value(&grant, decided.key), "{} and {:?}", decided.key, file);
            }
        }
    }
}
