use super::reader::PROBLEMS_MAX;
use super::*;

fn error(text: &str) -> ProjectError {
    ProjectPolicy::parse(text).expect_err(text)
}

#[test]
fn every_key_is_read() {
    let text = "safety = \"high\"\nmax_tool_rounds = 5\n[tools]\nallow = [\"read\"]\ndeny = [\"bash\"]\n\
                readable_roots = [\"docs\"]\nwritable_roots = [\".\"]\nnetwork = \"none\"\nshell = \"static\"\n\
                [isolation]\nrequire = \"full\"\n[skills]\ninherit_global = false\nallow = [\"a\"]\n[mcp]\nenabled = false\n\
                [[expect]]\ntool = \"bash\"\ninput = \"ls\"\nverdict = \"allow\"\n";
    let policy = ProjectPolicy::parse(text).expect("valid");
    assert_eq!(policy.safety, Some(Tier::High));
    assert_eq!(policy.max_tool_rounds, Some(5));
    assert_eq!(policy.tools_allow, Some(vec!["read".to_owned()]));
    assert_eq!(policy.network, Some(Network::None));
    assert_eq!(policy.shell, Some(ShellMode::Static));
    assert_eq!(policy.require, Some(Require::Full));
    assert!(policy.skills.is_some_and(|skills| !skills.inherit));
    assert_eq!(policy.mcp_enabled, Some(false));
    assert_eq!(policy.expect.len(), 1);
    let at = |key: &str| policy.places.get(key).map(|place| (place.line, place.column));
    assert_eq!(at("safety"), Some((1, 1)));
    assert_eq!(
        (at("tools.network"), at("mcp.enabled")),
        (Some((8, 1)), Some((16, 1)))
    );
    assert_eq!(policy.places.len(), 12);
}

#[test]
fn everything_that_is_wrong_is_told_in_the_order_of_the_text() {
    let text = "safety = \"hi\"\n[tools]\nshll = 1\ndeny = 2\n[isolation]\nrequire = \"ful\"\n[[expect]]\ntool = 1\n";
    let (_, problems) = ProjectPolicy::examine(text);
    let lines: Vec<u32> = problems.iter().map(|problem| problem.place.line).collect();
    assert_eq!(lines, [1, 3, 4, 6, 8], "{problems:?}");
    assert!(problems[1].hint.contains("tools.shell"), "{problems:?}");
}

#[test]
fn an_error_of_syntax_does_not_hide_the_others() {
    let text = "safety = \n[tools]\nnetwork = \"non\"\nshell static\n[mcp]\nenabld = true\n";
    let (_, problems) = ProjectPolicy::examine(text);
    let lines: Vec<u32> = problems.iter().map(|problem| problem.place.line).collect();
    assert_eq!(lines[..3], [1, 3, 4], "{problems:?}");
    assert_eq!(error(text).place.line, 1);
}

#[test]
fn a_file_of_mistakes_is_told_in_part() {
    let text: String = (0..20_000).map(|n| format!("k{n} = 1\n")).collect();
    let (_, problems) = ProjectPolicy::examine(&text);
    assert_eq!(problems.len(), PROBLEMS_MAX);
    let last = u32::try_from(PROBLEMS_MAX).expect("small");
    assert!(
        problems
            .iter()
            .all(|problem| (1..=20_000).contains(&problem.place.line))
    );
    assert!(problems[0].place.line <= last, "{:?}", problems[0]);
}

#[test]
fn every_key_can_be_left_out() {
    let text = "safety = \"high\"\nmax_tool_rounds = 5\n[tools]\nallow = [\"read\"]\ndeny = [\"bash\"]\n\
                readable_roots = [\"docs\"]\nwritable_roots = [\".\"]\nnetwork = \"none\"\nshell = \"static\"\n\
                [isolation]\nrequire = \"full\"\n[skills]\ninherit_global = false\nallow = [\"a\"]\ndeny = [\"b\"]\n\
                [mcp]\nenabled = false\nallow = [\"a\"]\ndeny = [\"b\"]\n";
    let policy = ProjectPolicy::parse(text).expect("valid");
    for key in policy.places.keys() {
        assert_ne!(policy.without(key), policy, "{key}");
    }
    let places = policy.places.clone();
    let none = places.keys().fold(policy, |rest, key| rest.without(key));
    let empty = ProjectPolicy {
        skills: Some(Selection::all()),
        mcp: Some(Selection::all()),
        places,
        ..ProjectPolicy::default()
    };
    assert_eq!(none, empty);
}

#[test]
fn an_empty_file_has_no_opinion() {
    assert_eq!(ProjectPolicy::parse(""), Ok(ProjectPolicy::default()));
    assert_eq!(
        ProjectPolicy::parse("# nothing\n\n"),
        Ok(ProjectPolicy::default())
    );
}

#[test]
fn unknown_keys_fail_with_place_and_nearest_key() {
    let unknown = error("safty = \"high\"\n");
    assert_eq!((unknown.place.line, unknown.place.column), (1, 1));
    assert!(
        unknown.message.contains("safty") && unknown.hint.contains("safety"),
        "{unknown:?}"
    );
    let nested = error("safety = \"low\"\n[tools]\n  writeable_roots = [\".\"]\n");
    assert_eq!((nested.place.line, nested.place.column), (3, 3));
    assert!(nested.hint.contains("writable_roots"), "{nested:?}");
    for text in [
        "[[mcp.servers]]\nname = \"x\"\n",
        "[providers.p]\ntype = \"x\"\n",
        "[tools.x]\n",
        "provider = 1\n",
    ] {
        assert!(error(text).message.contains("unknown key"), "{text}");
    }
}

#[test]
fn wrong_kinds_and_broken_files_fail() {
    for text in [
        "safety = 1",
        "safety = \"maximum\"",
        "max_tool_rounds = 0",
        "max_tool_rounds = -1",
        "max_tool_rounds = 1.5",
        "max_tool_rounds = 99999999999",
        "tools = 1",
        "[tools]\nallow = \"read\"",
        "[tools]\nallow = [1]",
        "[mcp]\nenabled = \"no\"",
        "[isolation]\nrequire = \"none\"",
        "safety = \"low\"\nsafety = \"high\"",
        "[tools]\n[tools]\n",
        "safety",
        "[",
        "[[expect]]\ntool = \"bash\"\n",
    ] {
        let error = error(text);
        assert!(error.place.line >= 1 && error.place.column >= 1, "{text}");
    }
    assert_eq!(error("\u{feff}x = 1").place, Place { line: 1, column: 1 });
    assert!(ProjectPolicy::parse("\u{feff}safety = \"high\"").is_ok());
    let big = format!("#{}", "x".repeat(PROJECT_BYTES_MAX));
    assert!(ProjectPolicy::parse(&big).is_err());
}
