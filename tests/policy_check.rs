//! `ferrum policy check` and `init`: what an author and a CI job are told.

use ferrum_tests::run::Output;
use ferrum_tests::scene::{Scene, ToolRun};
use ferrum_tests::schema::Schema;
use ferrum_tests::who::{everyone, ordinary};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

fn check(scene: &Scene, words: &[&str]) -> Output {
    scene.ferrum(["policy", "check"]).args(words).output()
}

fn as_json(scene: &Scene, words: &[&str], status: i32) -> Value {
    let output = check(scene, &[words, &["--json"]].concat());
    assert_eq!(output.status, Some(status), "{words:?}: {}", output.all());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    Schema::named("policy-check.json").expect(&report);
    assert_eq!(report["ok"], status == 0, "{report}");
    report
}

/// `line:column severity` of each problem.
fn problems(report: &Value) -> Vec<String> {
    let rows = report["problems"].as_array().expect("a list").iter();
    rows.map(|row| {
        let severity = row["severity"].as_str().unwrap_or_default();
        format!("{}:{} {severity}", row["line"], row["column"])
    })
    .collect()
}

#[test]
fn everything_that_is_wrong_is_told_with_its_place() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let file = scene.root().join(".ferrum/config.toml");
        scene.write(
            &file,
            "safty = \"high\"\nmax_tool_rounds = 0\n[tools]\n  writeable_roots = [\".\"]\nnetwork = \"some\"\n[[mcp.servers]]\nname = \"x\"\n",
        );
        let report = as_json(&scene, &[], 2);
        assert_eq!(
            problems(&report),
            ["1:1 error", "2:19 error", "4:3 error", "5:11 error", "6:7 error"]
        );
        let output = check(&scene, &[]);
        let out = output.out();
        let place = format!(
            "{}:1:1: error: unknown key safty\n  hint: did you mean safety?",
            file.display()
        );
        assert!(out.contains(&place), "{out}");
        assert!(out.contains("did you mean tools.writable_roots?"), "{out}");
        assert!(!scene.root().join("PWNED").exists());
    }
}

/// One run tells it all: no kind of error hides another.
#[test]
fn roots_widening_names_and_expectations_are_told_together() {
    let scene = Scene::new(&ordinary());
    let file = scene.root().join(".ferrum/config.toml");
    scene.write(
        &file,
        "safety = \"low\"\n[tools]\nwritable_roots = [\"nowhere\", \"..\"]\ndeny = [\"bsh\"]\nshll = 1\n\
         [[expect]]\ntool = \"sh\"\ninput = \"ls\"\nverdict = \"deny\"\n[mcp]\nenabled = 3\n",
    );
    let report = as_json(&scene, &[], 2);
    assert_eq!(
        problems(&report),
        [
            "1:1 error",
            "3:1 error",
            "3:1 error",
            "4:1 error",
            "5:1 error",
            "6:1 error",
            "11:11 error"
        ],
        "{report}"
    );
}

/// A project's own roots are no error wherever in it one stands; what is left may be nothing.
#[test]
fn a_session_below_the_project_gets_what_is_left_of_its_roots() {
    for who in everyone() {
        let scene = Scene::new(&who);
        let file = scene.root().join(".ferrum/config.toml");
        scene.write(&file, "[tools]\nwritable_roots = [\"src\"]\n");
        scene.write(&scene.root().join("src/deep/a.txt"), "a\n");
        scene.write(&scene.root().join("docs/b.txt"), "b\n");
        let arguments = json!({ "path": "new.txt", "content": "x" });
        for (place, outcome) in [
            ("src/deep", "done"),
            ("src", "done"),
            ("docs", "refused"),
            (".", "refused"),
        ] {
            let place = scene.root().join(place).display().to_string();
            assert_eq!(check(&scene, &[&place]).status, Some(0), "{place}");
            let mut run = scene.tool_run("write", &arguments, &[]);
            run.cwd = place.clone().into();
            let ran = ToolRun::of(&run);
            assert_eq!(ran.outcome(), outcome, "{place}: {}", ran.output.all());
        }
        let docs = scene.root().join("docs").display().to_string();
        let shown = scene.ferrum(["policy", "show", "--dir", &docs]).output();
        assert_eq!(shown.status, Some(0), "{}", shown.all());
        assert!(shown.all().contains("nothing is writable"), "{}", shown.all());
    }
}

#[test]
fn what_widens_is_an_error_and_what_is_in_vain_a_warning() {
    let scene = Scene::new(&ordinary());
    let file = scene.root().join(".ferrum/config.toml");
    scene.write(
        &file,
        "isolation.require = \"kernel\"\n[tools]\ndeny = []\nnetwork = \"none\"\n[mcp]\nenabled = true\n",
    );
    let report = as_json(&scene, &[], 0);
    assert_eq!(problems(&report), ["3:1 warning", "6:1 warning"]);
    for (text, place, word) in [
        ("safety = \"low\"\n", "1:1 error", "widen"),
        ("\n[tools]\nnetwork = \"full\"\n", "3:1 error", "widen"),
        (
            "[tools]\nwritable_roots = [\"..\"]\n",
            "2:1 error",
            "outside the project and the user's roots",
        ),
        (
            "[tools]\nwritable_roots = [\"nowhere\"]\n",
            "2:1 error",
            "nowhere",
        ),
        ("[tools]\ndeny = [\"bsh\"]\n", "2:1 error", "no built-in tool"),
    ] {
        scene.write(&file, text);
        let report = as_json(&scene, &[], 2);
        assert!(problems(&report).contains(&place.to_owned()), "{text}: {report}");
        assert!(report.to_string().contains(word), "{text}: {report}");
    }
    // Under a user who allows less, the same file narrows nothing.
    scene.write(&file, "safety = \"medium\"\n");
    assert_eq!(problems(&as_json(&scene, &[], 0)), Vec::<String>::new());
    scene.write(
        &scene.config_dir().join("config.toml"),
        "safety.ceiling = \"high\"\n",
    );
    assert_eq!(problems(&as_json(&scene, &[], 0)), ["1:1 warning"]);
}

#[test]
fn files_directories_and_outer_files_are_looked_at_once() {
    let scene = Scene::new(&ordinary());
    let outer = scene.home().join("work/.ferrum/config.toml");
    let inner = scene.root().join(".ferrum/config.toml");
    let template = scene.root().join("docs/policy.toml");
    scene.write(&outer, "safety = \"medium\"\n");
    scene.write(&inner, "max_tool_rounds = 5\n");
    scene.write(&template, "[tools]\nwritable_roots = [\".\"]\n");
    let files = |report: &Value| report["files"].as_array().map(Vec::len);
    assert_eq!(files(&as_json(&scene, &[], 0)), Some(2));
    assert_eq!(files(&as_json(&scene, &["src", ".", "../library"], 0)), Some(2));
    assert_eq!(files(&as_json(&scene, &[".ferrum/config.toml"], 0)), Some(1));
    assert_eq!(files(&as_json(&scene, &["docs/policy.toml"], 0)), Some(1));
    assert_eq!(files(&as_json(&scene, &["/"], 0)), Some(0));
    let missing = check(&scene, &["nowhere"]);
    assert_eq!(missing.status, Some(2));
    assert!(missing.all().contains("nowhere"), "{}", missing.all());
    // A fault of an outer file is one of each directory below it.
    scene.write(&outer, "sfety = 1\n");
    assert_eq!(problems(&as_json(&scene, &["src", "docs"], 2)), ["1:1 error"]);
    std::fs::remove_file(&inner).expect("removed");
    symlink(&template, &inner).expect("a link");
    assert!(
        check(&scene, &[".ferrum/config.toml"])
            .all()
            .contains("not a regular file")
    );
}

#[test]
fn expectations_are_put_to_the_test() {
    let scene = Scene::new(&ordinary());
    let file = scene.root().join(".ferrum/config.toml");
    let row = |tool: &str, input: &str, safety: &str, verdict: &str| {
        let safety = if safety.is_empty() {
            String::new()
        } else {
            format!("safety = \"{safety}\"\n")
        };
        format!("[[expect]]\ntool = \"{tool}\"\ninput = \"{input}\"\n{safety}verdict = \"{verdict}\"\n")
    };
    let met = [
        row("bash", "ls", "", "allow"),
        row("bash", "curl x", "high", "deny"),
        row("bash", "curl x", "medium", "allow"),
        row("write", ".git/hooks/x", "low", "deny"),
        row("read", "/etc/shadow", "", "deny"),
        row("exec", "/bin/ls", "high", "allow"),
        row("connect", "example.org:443", "", "deny"),
    ]
    .concat();
    scene.write(&file, &met);
    let report = as_json(&scene, &[], 0);
    assert_eq!(report["expectations"].as_array().map(Vec::len), Some(7));

    scene.write(
        &file,
        [
            met.as_str(),
            &row("bash", "sudo x", "medium", "allow"),
            &row("bash", "make", "", "deny"),
        ]
        .concat(),
    );
    let report = as_json(&scene, &[], 2);
    let rows = report["expectations"].as_array().expect("a list").iter();
    let unmet: Vec<&Value> = rows.filter(|row| row["met"] == false).collect();
    assert_eq!(unmet.len(), 2, "{report}");
    assert_eq!(
        (&unmet[0]["code"], &unmet[1]["code"]),
        (&json!("privilege"), &json!(null))
    );
    let named = format!(
        "{}:33: expectation not met: bash \"sudo x\" at medium is to be allow, and is deny (privilege",
        file.display()
    );
    assert!(
        check(&scene, &[]).out().contains(&named),
        "{}",
        check(&scene, &[]).out()
    );
    let shown = scene.ferrum(["policy", "show"]).output();
    assert_eq!(shown.status, Some(2), "{}", shown.all());
    assert!(shown.out().contains(&named), "{}", shown.out());

    // The floor makes the question one that cannot be put.
    scene.write(
        &file,
        ["safety = \"high\"\n", &row("bash", "curl x", "medium", "deny")].concat(),
    );
    assert_eq!(as_json(&scene, &[], 2)["expectations"][0]["verdict"], "error");
    for (tool, input, word) in [("frob", "x", "cannot be"), ("connect", "x", "HOST:PORT")] {
        scene.write(&file, row(tool, input, "", "allow"));
        assert!(as_json(&scene, &[], 2).to_string().contains(word));
    }
}

/// No session can start here, and nothing could be confined.
#[test]
fn no_expectation_is_passed_over_in_silence() {
    let scene = Scene::new(&ordinary());
    let file = scene.root().join(".ferrum/config.toml");
    let row = "[[expect]]\ntool = \"ls\"\ninput = \".\"\nverdict = \"allow\"\n";
    scene.write(&file, row.repeat(1_000));
    as_json(&scene, &[], 0);
    scene.write(&file, row.repeat(1_001));
    assert_eq!(problems(&as_json(&scene, &[], 2)), ["4001:1 error"]);
}

#[test]
fn no_wall_is_needed() {
    let scene = Scene::new(&ordinary());
    scene.write(
        &scene.root().join(".ferrum/config.toml"),
        "isolation.require = \"full\"\n[[expect]]\ntool = \"bash\"\ninput = \"echo x > /tmp/y\"\nverdict = \"allow\"\n",
    );
    let mut run = scene.ferrum(["policy", "check"]);
    run.without_namespaces = true;
    let output = run.output();
    assert_eq!(output.status, Some(0), "{}", output.all());
    assert!(output.out().contains("1 expectations met"), "{}", output.out());
}

/// The file that `init` prints is accepted, as it stands and with every line of it in force.
#[test]
fn the_file_to_start_from_is_accepted() {
    let scene = Scene::new(&ordinary());
    let init = scene.ferrum(["policy", "init"]).output();
    assert_eq!(init.status, Some(0), "{}", init.all());
    let file = scene.root().join(".ferrum/config.toml");
    scene.write(&file, init.out());
    let report = as_json(&scene, &[], 0);
    assert_eq!(
        (
            &report["problems"],
            report["expectations"].as_array().map(Vec::len)
        ),
        (&json!([]), Some(1))
    );

    std::fs::create_dir(scene.root().join("tests")).expect("a directory");
    let in_force: String = init
        .out()
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(key) if key.contains(" = ") => format!("{key}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let keys = in_force
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains(" = "))
        .count();
    assert_eq!(keys, 19, "{in_force}");
    scene.write(&file, in_force);
    let report = as_json(&scene, &[], 0);
    // `allow` without bash leaves `deny` nothing to do.
    assert!(
        report["problems"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|problem| problem["severity"] == "warning"),
        "{report}"
    );
}

#[test]
fn a_file_of_one_long_value_is_told_in_short() {
    let scene = Scene::new(&ordinary());
    let long = "x".repeat(1_000_000);
    let file = scene.root().join(".ferrum/config.toml");
    for text in [
        format!("safety = \"{long}\"\n"),
        format!("{long} = 1\n"),
        format!("[[expect]]\ntool = \"bash\"\ninput = \"ls {long}\"\nverdict = \"allow\"\n"),
    ] {
        scene.write(&file, text);
        let output = check(&scene, &[]);
        assert_eq!(output.status, Some(2), "{}", &output.all()[..200]);
        assert!(output.all().len() < 5_000, "{} bytes", output.all().len());
    }
}
