//! A language model that says what a test wants, in the file format of llama.cpp.
//!
//! Embeddings are one-hot, attention and feed-forward weights are zero: what comes out of the only
//! layer is the last token itself, and the output matrix maps each token to its successor. So the
//! server in front of it is real, its parsing of calls and reasoning too, and only the choice of
//! tokens is ours.

use std::path::Path;

/// A model that plays one of a few scripts.
pub struct Scripted<'a> {
    /// Control tokens and the pieces that each of them starts. No text may stand twice, in one
    /// script or in two: a token has one successor.
    pub scripts: &'a [(&'a str, &'a [&'a str])],
    /// The end of the chat template: prints the control token of the script to play.
    pub choice: &'a str,
}

/// Width of the model, and so the most tokens that it can tell apart.
const WIDTH: usize = 512;
const HEADS: u32 = 8;
const FEED_FORWARD: usize = 32;
/// Beginning of each tensor's data.
const ALIGNMENT: usize = 32;
const END: &str = "</s>";

/// Kinds of token as the format numbers them.
#[derive(Clone, Copy)]
enum Kind {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Byte = 6,
}

impl Scripted<'_> {
    /// Writes the model file.
    ///
    /// # Panics
    /// When it cannot be written, or the scripts do not fit.
    pub fn write(&self, path: &Path) {
        let vocabulary = Vocabulary::new(self.scripts);
        let tensors = tensors(&vocabulary);
        let mut file = b"GGUF".to_vec();
        file.extend(3_u32.to_le_bytes());
        file.extend((tensors.len() as u64).to_le_bytes());
        let facts = Facts::new(&vocabulary, &self.template());
        file.extend(facts.count.to_le_bytes());
        file.extend(facts.bytes);
        let mut offset = 0_usize;
        for (name, shape, values) in &tensors {
            string(&mut file, name);
            file.extend(u32::try_from(shape.len()).expect("few").to_le_bytes());
            for length in shape {
                file.extend((*length as u64).to_le_bytes());
            }
            file.extend(0_u32.to_le_bytes());
            file.extend((offset as u64).to_le_bytes());
            offset += (values.len() * 4).next_multiple_of(ALIGNMENT);
        }
        for (_, _, values) in &tensors {
            file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
            file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        std::fs::write(path, file).expect("the model's file");
    }

    fn template(&self) -> String {
        format!("{}{}", include_str!("template.jinja").trim_end(), self.choice)
    }
}

struct Vocabulary {
    tokens: Vec<(String, Kind)>,
    /// Which token follows which.
    successors: Vec<(usize, usize)>,
}

impl Vocabulary {
    fn new(scripts: &[(&str, &[&str])]) -> Self {
        let mut all = Self {
            tokens: Vec::new(),
            successors: Vec::new(),
        };
        all.add("<unk>", Kind::Unknown);
        all.add("<s>", Kind::Control);
        let end = all.add(END, Kind::Control);
        all.add("<|turn|>", Kind::Control);
        all.add("<|end|>", Kind::Control);
        for byte in 0..=255_u8 {
            all.add(&format!("<0x{byte:02X}>"), Kind::Byte);
        }
        for byte in b' '..=b'~' {
            let letter = char::from(byte).to_string();
            all.add(if byte == b' ' { "\u{2581}" } else { &letter }, Kind::Normal);
        }
        for (start, pieces) in scripts {
            let mut last = all.add(start, Kind::Control);
            for piece in *pieces {
                let next = all.add(piece, Kind::UserDefined);
                all.successors.push((last, next));
                last = next;
            }
            all.successors.push((last, end));
        }
        assert!(all.tokens.len() <= WIDTH, "the scripts are too long");
        all
    }

    fn add(&mut self, text: &str, kind: Kind) -> usize {
        assert!(
            self.tokens.iter().all(|(known, _)| known != text),
            "{text:?} stands twice"
        );
        self.tokens.push((text.to_owned(), kind));
        self.tokens.len() - 1
    }
}

type Tensor = (String, Vec<usize>, Vec<f32>);

fn tensors(vocabulary: &Vocabulary) -> Vec<Tensor> {
    let count = vocabulary.tokens.len();
    let mut embedding = vec![0.0; count * WIDTH];
    let mut output = vec![0.0; count * WIDTH];
    for token in 0..count {
        embedding[token * WIDTH + token] = 1.0;
    }
    for (token, next) in &vocabulary.successors {
        output[next * WIDTH + token] = 4.0;
    }
    let named =
        |name: &str, shape: &[usize], values: Vec<f32>| (format!("{name}.weight"), shape.to_vec(), values);
    let zero = |name: &str, shape: &[usize]| named(name, shape, vec![0.0; shape.iter().product()]);
    let one = |name: &str| named(name, &[WIDTH], vec![1.0; WIDTH]);
    vec![
        named("token_embd", &[WIDTH, count], embedding),
        one("output_norm"),
        named("output", &[WIDTH, count], output),
        one("blk.0.attn_norm"),
        one("blk.0.ffn_norm"),
        zero("blk.0.attn_q", &[WIDTH, WIDTH]),
        zero("blk.0.attn_k", &[WIDTH, WIDTH]),
        zero("blk.0.attn_v", &[WIDTH, WIDTH]),
        zero("blk.0.attn_output", &[WIDTH, WIDTH]),
        zero("blk.0.ffn_gate", &[WIDTH, FEED_FORWARD]),
        zero("blk.0.ffn_up", &[WIDTH, FEED_FORWARD]),
        zero("blk.0.ffn_down", &[FEED_FORWARD, WIDTH]),
    ]
}

/// What the file says of the model: names with typed values.
struct Facts {
    count: u64,
    bytes: Vec<u8>,
}

impl Facts {
    fn new(vocabulary: &Vocabulary, template: &str) -> Self {
        let number = |n: usize| u32::try_from(n).expect("small");
        let mut facts = Self {
            count: 0,
            bytes: Vec::new(),
        };
        facts.text("general.architecture", "llama");
        for (name, value) in [
            ("general.file_type", 0),
            ("llama.context_length", 65_536),
            ("llama.embedding_length", number(WIDTH)),
            ("llama.block_count", 1),
            ("llama.feed_forward_length", number(FEED_FORWARD)),
            ("llama.attention.head_count", HEADS),
            ("llama.attention.head_count_kv", HEADS),
            ("llama.rope.dimension_count", number(WIDTH) / HEADS),
            ("llama.vocab_size", number(vocabulary.tokens.len())),
            ("tokenizer.ggml.unknown_token_id", 0),
            ("tokenizer.ggml.bos_token_id", 1),
            ("tokenizer.ggml.eos_token_id", 2),
        ] {
            facts.value(name, 4, &value.to_le_bytes());
        }
        facts.value(
            "llama.attention.layer_norm_rms_epsilon",
            6,
            &1e-5_f32.to_le_bytes(),
        );
        facts.text("tokenizer.ggml.model", "llama");
        facts.list(
            "tokenizer.ggml.tokens",
            8,
            &vocabulary.tokens,
            |out, (text, _)| {
                string(out, text);
            },
        );
        facts.list("tokenizer.ggml.scores", 6, &vocabulary.tokens, |out, _| {
            out.extend(0_f32.to_le_bytes());
        });
        facts.list(
            "tokenizer.ggml.token_type",
            5,
            &vocabulary.tokens,
            |out, (_, kind)| {
                out.extend((*kind as i32).to_le_bytes());
            },
        );
        facts.value("tokenizer.ggml.add_space_prefix", 7, &[0]);
        facts.text("tokenizer.chat_template", template);
        facts
    }

    fn value(&mut self, name: &str, kind: u32, value: &[u8]) {
        self.count += 1;
        string(&mut self.bytes, name);
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend(value);
    }

    fn text(&mut self, name: &str, text: &str) {
        let mut value = Vec::new();
        string(&mut value, text);
        self.value(name, 8, &value);
    }

    fn list<T>(&mut self, name: &str, kind: u32, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
        let mut value = kind.to_le_bytes().to_vec();
        value.extend((items.len() as u64).to_le_bytes());
        for item in items {
            write(&mut value, item);
        }
        self.value(name, 9, &value);
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}
