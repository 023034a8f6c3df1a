//! The small tree that the rules see: decoded words, and only the structure that matters to them.

use std::ops::Range;

/// One statement with what is redirected for it.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) redirects: Vec<Redirect>,
    pub(super) span: Range<usize>,
}

/// What a statement is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Command(Command),
    /// `;`, newline, `&&`, `||`: one shell runs them one after the other.
    Sequence(Vec<Node>),
    /// Each stage has a shell of its own.
    Pipeline(Vec<Node>),
    Background(Box<Node>),
    Subshell(Vec<Node>),
    Group(Vec<Node>),
    Control(Control),
    Function {
        name: String,
        body: Box<Node>,
    },
    /// `[[ … ]]`, flattened to its operators and operands.
    Test(Vec<Word>),
    /// `(( … ))`.
    Arithmetic(Word),
}

/// `if for while until case select` and the C-like `for`.
#[derive(Debug, Clone)]
pub(super) struct Control {
    pub(super) keyword: &'static str,
    pub(super) variable: Option<String>,
    pub(super) words: Vec<Word>,
    pub(super) parts: Vec<Node>,
}

/// A simple command. `export`, `unset`, `[` and their like are simple commands here.
#[derive(Debug, Clone, Default)]
pub(super) struct Command {
    pub(super) assignments: Vec<Assignment>,
    pub(super) words: Vec<Word>,
}

/// `NAME=value`, `NAME[i]=value`, `NAME=(values)`.
#[derive(Debug, Clone)]
pub(super) struct Assignment {
    pub(super) name: String,
    /// `name+=value`
    pub(super) appends: bool,
    pub(super) subscript: Option<Word>,
    pub(super) values: Vec<Word>,
    pub(super) span: Range<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Redirect {
    pub(super) kind: RedirectKind,
    pub(super) target: Word,
    pub(super) span: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedirectKind {
    Input,
    /// Any form that creates, truncates, appends to or opens for writing.
    Output,
    /// `2>&1`, `>&-`.
    Duplicate,
    HereString,
    /// The body; `quoted` when nothing in it is expanded.
    Heredoc {
        quoted: bool,
    },
}

/// One word after quote removal.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) pieces: Vec<Piece>,
    pub(super) span: Range<usize>,
}

/// A part of a word.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// `quoted` also for characters after a backslash.
    Literal {
        text: String,
        quoted: bool,
    },
    /// An active pattern: `*`, `?`, `[…]`, `{1..3}`, an extended glob.
    Glob(String),
    /// `~` or `$HOME`.
    Home,
    Pwd,
    Tmp,
    /// `~name`.
    UserHome(String),
    Param(Param),
    Arithmetic(Arithmetic),
    Subst(Vec<Node>),
    ProcessIn(Vec<Node>),
    ProcessOut(Vec<Node>),
}

/// `$x` or `${x…}`.
#[derive(Debug, Clone)]
pub(super) struct Param {
    pub(super) name: String,
    /// `${!x}` or `${x@P}`: the value is read as code or as another name.
    pub(super) indirect: bool,
    /// `${x=…}`, `${x:=…}`.
    pub(super) assigns: bool,
    /// What is evaluated arithmetically in it: offsets and subscripts.
    pub(super) numbers: Arithmetic,
    /// All of `numbers` stands in a subscript: a key where the variable is an associative array.
    pub(super) keyed: bool,
    /// `inner` may become the value: `${x:-word}`, `${x:+word}`, and not `${x#word}`.
    pub(super) defaults: bool,
    /// The operator's word.
    pub(super) inner: Vec<Piece>,
}

/// Text that bash evaluates as an expression.
#[derive(Debug, Clone, Default)]
pub(super) struct Arithmetic {
    /// Variables whose values are evaluated.
    pub(super) names: Vec<String>,
    /// Variables that it assigns.
    pub(super) sets: Vec<String>,
    pub(super) inner: Vec<Piece>,
}

/// Calls `see` with each piece of each word of a statement, those in substitutions included.
pub(super) fn each_piece(node: &Node, see: &mut impl FnMut(&Piece)) {
    node.redirects
        .iter()
        .for_each(|redirect| each_in(&redirect.target, see));
    match &node.kind {
        Kind::Command(command) => {
            let values = command
                .assignments
                .iter()
                .flat_map(|assignment| &assignment.values);
            command
                .words
                .iter()
                .chain(values)
                .for_each(|word| each_in(word, see));
        }
        Kind::Sequence(nodes) | Kind::Pipeline(nodes) | Kind::Subshell(nodes) | Kind::Group(nodes) => {
            nodes.iter().for_each(|node| each_piece(node, see));
        }
        Kind::Background(inner) | Kind::Function { body: inner, .. } => each_piece(inner, see),
        Kind::Control(control) => {
            control.words.iter().for_each(|word| each_in(word, see));
            control.parts.iter().for_each(|node| each_piece(node, see));
        }
        Kind::Test(words) => words.iter().for_each(|word| each_in(word, see)),
        Kind::Arithmetic(word) => each_in(word, see),
    }
}

fn each_in(word: &Word, see: &mut impl FnMut(&Piece)) {
    for piece in &word.pieces {
        see(piece);
        if let Piece::Subst(nodes) | Piece::ProcessIn(nodes) | Piece::ProcessOut(nodes) = piece {
            nodes.iter().for_each(|node| each_piece(node, see));
        }
    }
}

impl Node {
    pub(super) fn new(kind: Kind, span: Range<usize>) -> Self {
        Self {
            kind,
            redirects: Vec::new(),
            span,
        }
    }
}

impl Word {
    /// The word's text when nothing in it is expanded.
    pub(super) fn literal(&self) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal { text: part, .. } => text.push_str(part),
                _ => return None,
            }
        }
        Some(text)
    }

    /// The literal text before the first expansion, and whether that is the whole word.
    pub(super) fn prefix(&self) -> (String, bool) {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal { text: part, .. } => text.push_str(part),
                _ => return (text, false),
            }
        }
        (text, true)
    }

    /// True when the word's value depends on variables, substitutions or expressions.
    pub(super) fn is_dynamic(&self) -> bool {
        self.pieces.iter().any(|piece| {
            matches!(
                piece,
                Piece::Param(_)
                    | Piece::Arithmetic(_)
                    | Piece::Subst(_)
                    | Piece::ProcessIn(_)
                    | Piece::ProcessOut(_)
            )
        })
    }

    /// True for `name[…` at the start of a word.
    pub(super) fn has_subscript(&self) -> bool {
        matches!(self.pieces.as_slice(), [Piece::Literal { .. }, Piece::Glob(open), ..] if open == "[")
    }

    pub(super) fn has_substitution(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Subst(_)))
    }

    /// The word without its first `bytes` bytes of literal text, as for the value in `--name=value`.
    pub(super) fn without_prefix(&self, mut bytes: usize) -> Self {
        let mut pieces = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal { text, quoted } if bytes > 0 => {
                    let cut = text.floor_char_boundary(bytes.min(text.len()));
                    bytes = bytes.saturating_sub(text.len());
                    if cut < text.len() {
                        pieces.push(Piece::Literal {
                            text: text[cut..].to_owned(),
                            quoted: *quoted,
                        });
                    }
                }
                other => pieces.push(other.clone()),
            }
        }
        Self {
            pieces,
            span: self.span.clone(),
        }
    }

    pub(super) fn from_literal(text: &str, span: Range<usize>) -> Self {
        let pieces = vec![Piece::Literal {
            text: text.to_owned(),
            quoted: true,
        }];
        Self { pieces, span }
    }
}
