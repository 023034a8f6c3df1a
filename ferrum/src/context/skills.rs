//! Skills: directories with a SKILL.md. Only name, description and place go into the prompt; the
//! model reads the rest when a task calls for it.

use super::front_matter::{HEAD_BYTES_MAX, one_line, parse};
use super::regular::{Place, Regular};
use super::{Instruction, Sources, Texts, cwd, shown, shown_from, top};
use ferrum_proto::seal::Selection;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const NAME_CHARS_MAX: usize = 64;
const DESCRIPTION_BYTES_MAX: usize = 1 << 10;
/// Bytes of a whole SKILL.md.
const FILE_BYTES_MAX: u64 = 256 << 10;
const SKILLS_MAX: usize = 256;
const DEPTH_MAX: usize = 16;
/// Directories that are looked into below one place: somebody may keep a checkout there.
const DIRECTORIES_MAX: usize = 4096;
/// Bytes of the index: it is sent with each request.
const INDEX_BYTES_MAX: usize = 32 << 10;

const HEADING: &str = "# Skills\n\
    Instructions for particular jobs. Where a task matches one, read its file first and follow it; paths in it are \
    relative to its directory.";

/// One skill that can be offered.
#[derive(Debug)]
struct Skill {
    name: String,
    description: String,
    file: PathBuf,
    id: (u64, u64),
    instruction: Instruction,
    of_user: bool,
    /// The model may call it up by itself.
    for_model: bool,
}

/// One place where skills lie.
struct Root {
    directory: PathBuf,
    of_user: bool,
    /// `NAME.md` files count too.
    flat: bool,
}

/// A skill as the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    pub name: String,
    pub file: PathBuf,
    /// One of the user's own; else the project's.
    pub of_user: bool,
    /// Its words are instructions; else information.
    pub trusted: bool,
}

/// The skills that the grant lets through, by name.
pub(super) fn offered(sources: &Sources<'_>, notices: &mut Vec<String>) -> Vec<Offered> {
    let skills = selected(sources, notices).into_iter();
    let mut all: Vec<Offered> = skills
        .map(|skill| Offered {
            trusted: skill.of_user || sources.believes(&skill.instruction, notices),
            name: skill.name,
            file: skill.file,
            of_user: skill.of_user,
        })
        .collect();
    all.sort_by(|left, right| left.name.cmp(&right.name));
    all
}

/// Finds the skills that the grant lets through and renders their index.
pub(super) fn find(sources: &Sources<'_>, notices: &mut Vec<String>) -> Texts {
    let cwd = cwd(sources.granted);
    let found = selected(sources, notices);
    let of_project = found.iter().filter(|skill| !skill.of_user);
    let instructions = of_project.map(|skill| skill.instruction.clone()).collect();
    let believed = |skill: &Skill| skill.of_user || sources.believes(&skill.instruction, notices);
    let (trusted, untrusted): (Vec<Skill>, Vec<Skill>) = found.into_iter().partition(believed);
    Texts {
        trusted: render(&trusted, &cwd, notices),
        untrusted: render(&untrusted, &cwd, notices),
        instructions,
    }
}

fn selected(sources: &Sources<'_>, notices: &mut Vec<String>) -> Vec<Skill> {
    let (cwd, top) = (cwd(sources.granted), top(sources.granted));
    let selection = &sources.granted.skills;
    let mut found: Vec<Skill> = Vec::new();
    for root in roots(sources, &cwd, &top) {
        if root.of_user && !selection.inherit {
            continue;
        }
        let mut search = Search {
            root: &root,
            place: place(&root, &top, sources.external_links),
            found: Vec::new(),
            notices,
            directories: 0,
        };
        search.look(&root.directory, 0);
        let more = search.found;
        more.into_iter().for_each(|skill| add(&mut found, skill, notices));
    }
    found.retain(|skill| skill.for_model && is_selected(&skill.name, selection));
    if found.len() > SKILLS_MAX {
        notices.push(format!(
            "{} skills were found, of which the first {SKILLS_MAX} are offered",
            found.len()
        ));
        found.truncate(SKILLS_MAX);
    }
    found
}

/// The user's, then the project's from the top of the checkout down: a later one replaces an
/// earlier one of its name and kind.
fn roots(sources: &Sources<'_>, cwd: &Path, top: &Path) -> Vec<Root> {
    let root = |directory: PathBuf, of_user, flat| Root {
        directory,
        of_user,
        flat,
    };
    let mut all = vec![
        root(sources.dirs.home.join(".agents/skills"), true, false),
        root(sources.dirs.config.join("skills"), true, true),
    ];
    let mut inside: Vec<&Path> = cwd.ancestors().take_while(|path| path.starts_with(top)).collect();
    inside.reverse();
    for directory in inside {
        all.push(root(directory.join(".agents/skills"), false, false));
        all.push(root(directory.join(".ferrum/skills"), false, true));
    }
    for root in &mut all {
        // The user may keep the directory itself elsewhere.
        if root.of_user
            && let Ok(real) = root.directory.canonicalize()
        {
            root.directory = real;
        }
    }
    all
}

fn place<'a>(root: &'a Root, top: &'a Path, external_links: bool) -> Place<'a> {
    match (root.of_user, external_links) {
        (true, true) => Place::Own,
        (true, false) => Place::Outside(&root.directory),
        (false, _) => Place::Inside(top),
    }
}

struct Search<'a> {
    root: &'a Root,
    place: Place<'a>,
    found: Vec<Skill>,
    notices: &'a mut Vec<String>,
    directories: usize,
}

impl Search<'_> {
    fn look(&mut self, directory: &Path, depth: usize) {
        self.directories += 1;
        if depth > DEPTH_MAX || self.directories > DIRECTORIES_MAX {
            return;
        }
        // A place that is not there holds no skills.
        let Ok(entries) = std::fs::read_dir(directory) else {
            return;
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let hidden = path
                .file_name()
                .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
            if hidden {
                continue;
            }
            if path.is_dir() {
                let file = path.join("SKILL.md");
                if file.symlink_metadata().is_ok() {
                    self.take(&file, path.file_name());
                } else {
                    self.look(&path, depth + 1);
                }
            } else if depth == 0 && self.root.flat && path.extension() == Some(OsStr::new("md")) {
                // A README beside the skills is none.
                if path.file_stem().and_then(OsStr::to_str).is_some_and(is_name) {
                    self.take(&path, path.file_stem());
                }
            }
        }
    }

    fn take(&mut self, file: &Path, own_name: Option<&OsStr>) {
        match skill(file, own_name, self.place, self.root.of_user) {
            Ok(Some(skill)) => self.found.push(skill),
            Ok(None) => {}
            Err(why) => self
                .notices
                .push(format!("skill {}: {why}; it is left out", shown(file))),
        }
    }
}

fn skill(
    file: &Path,
    own_name: Option<&OsStr>,
    place: Place<'_>,
    of_user: bool,
) -> Result<Option<Skill>, String> {
    let Some(opened) = Regular::open(file, place)? else {
        return Ok(None);
    };
    if opened.bytes > FILE_BYTES_MAX {
        return Err(format!("is larger than {} KiB", FILE_BYTES_MAX >> 10));
    }
    let head = parse(&opened.read(HEAD_BYTES_MAX)?)?;
    let own_name = own_name.and_then(OsStr::to_str).map(str::to_owned);
    let name = head.name.or(own_name).unwrap_or_default();
    if !is_name(&name) {
        return Err(format!(
            "has the name {name:?}; a name is 1 to {NAME_CHARS_MAX} of a-z, 0-9 and -"
        ));
    }
    let description = head.description.map(|text| one_line(&text)).unwrap_or_default();
    if description.is_empty() {
        return Err("has no description".to_owned());
    }
    if description.len() > DESCRIPTION_BYTES_MAX {
        return Err(format!("has a description above {DESCRIPTION_BYTES_MAX} bytes"));
    }
    Ok(Some(Skill {
        name,
        description,
        file: file.to_path_buf(),
        id: opened.id,
        instruction: Instruction::new(file, &opened),
        of_user,
        for_model: !head.disable_model_invocation,
    }))
}

fn is_name(text: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A project's skill does not replace one of the user's; else the last of a name holds. Either way
/// the operator hears of it.
fn add(found: &mut Vec<Skill>, skill: Skill, notices: &mut Vec<String>) {
    if found.iter().any(|other| other.id == skill.id) {
        return;
    }
    let Some(at) = found.iter().position(|other| other.name == skill.name) else {
        found.push(skill);
        return;
    };
    let is_kept = found[at].of_user && !skill.of_user;
    let (kept, lost) = if is_kept {
        (&found[at], &skill)
    } else {
        (&skill, &found[at])
    };
    notices.push(format!(
        "skill {} of {} is left out: {} has that name{}",
        lost.name,
        shown(&lost.file),
        shown(&kept.file),
        if is_kept {
            ", and a project's skill does not replace yours"
        } else {
            ""
        }
    ));
    if !is_kept {
        found[at] = skill;
    }
}

fn is_selected(name: &str, selection: &Selection) -> bool {
    let named = |list: &[String]| list.iter().any(|other| other == name);
    selection.allow.as_deref().is_none_or(named) && !named(&selection.deny)
}

fn render(skills: &[Skill], cwd: &Path, notices: &mut Vec<String>) -> String {
    let mut out = HEADING.to_owned();
    for (at, skill) in skills.iter().enumerate() {
        let line = format!(
            "\n- {}: {} ({})",
            skill.name,
            skill.description,
            shown_from(cwd, &skill.file)
        );
        if out.len() + line.len() > INDEX_BYTES_MAX {
            let left = skills.len() - at;
            notices.push(format!(
                "{left} skills are left out: the index of skills is bounded to {} KiB",
                INDEX_BYTES_MAX >> 10
            ));
            break;
        }
        out.push_str(&line);
    }
    if skills.is_empty() { String::new() } else { out }
}
