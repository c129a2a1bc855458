//! The words of a script's text: each type of argument writes itself as one word and reads itself back.
//!
//! Invariant: `Word::parse(&word.word())` is `word`, whatever the bytes; no word is empty or has a blank in it.

use esker::Kind;
use esker::Time;

/// An argument of an operation.
pub trait Word: Sized {
    /// As one word.
    fn word(&self) -> String;
    /// Back from one word; on an error, what was expected.
    fn parse(word: &str) -> Result<Self, String>;
}

/// Bytes of a path, a target or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(pub Vec<u8>);

/// A number written in octal: permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octal(pub u32);

/// What utimensat(2) does to one of the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Leave it.
    Omit,
    /// Set it to now.
    Now,
    /// Set it.
    At(Time),
}

/// The value of an extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// So many bytes grown from a seed.
    Fill(u64, u64),
    /// These bytes.
    Raw(Vec<u8>),
    /// A POSIX ACL as the kernel encodes it: tag, permissions, id.
    Acl(Vec<(u16, u16, u32)>),
}

impl Value {
    /// The bytes themselves.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Fill(len, seed) => super::fill(*seed, 0, *len as usize),
            Self::Raw(bytes) => bytes.clone(),
            Self::Acl(entries) => {
                let mut bytes = 2_u32.to_le_bytes().to_vec();
                for (tag, perm, id) in entries {
                    bytes.extend(tag.to_le_bytes());
                    bytes.extend(perm.to_le_bytes());
                    bytes.extend(id.to_le_bytes());
                }
                bytes
            }
        }
    }
}

/// Flags that write themselves as the names of those that are set, joined by `+`.
macro_rules! flags {
    ($(#[$meta:meta])* $name:ident { $($(#[$flag_meta:meta])* $flag:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$flag_meta])* pub $flag: bool),+ }

        impl Word for $name {
            fn word(&self) -> String {
                let mut set = Vec::new();
                $(if self.$flag { set.push(stringify!($flag)); })+
                if set.is_empty() { "-".into() } else { set.join("+") }
            }
            fn parse(word: &str) -> Result<Self, String> {
                let mut flags = Self::default();
                for flag in word.split('+').filter(|&flag| flag != "-") {
                    match flag {
                        $(stringify!($flag) => flags.$flag = true,)+
                        _ => return Err(format!("no flag {flag}")),
                    }
                }
                Ok(flags)
            }
        }
    };
}
pub(crate) use flags;

/// An enum whose variants are words.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$case_meta:meta])* $case:ident = $text:literal),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$case_meta])* $case),+ }

        impl Word for $name {
            fn word(&self) -> String {
                match self { $(Self::$case => $text),+ }.into()
            }
            fn parse(word: &str) -> Result<Self, String> {
                match word {
                    $($text => Ok(Self::$case),)+
                    _ => Err(format!("{word} is none of {:?}", [$($text),+])),
                }
            }
        }
    };
}
pub(crate) use choice;

macro_rules! number {
    ($($type:ty),+) => {$(
        impl Word for $type {
            fn word(&self) -> String {
                self.to_string()
            }
            fn parse(word: &str) -> Result<Self, String> {
                word.parse().map_err(|_| format!("{word} is not a number"))
            }
        }
    )+};
}
number!(u8, u32, u64, i64, usize);

impl Word for bool {
    fn word(&self) -> String {
        if *self { "follow" } else { "nofollow" }.into()
    }
    fn parse(word: &str) -> Result<Self, String> {
        match word {
            "follow" => Ok(true),
            "nofollow" => Ok(false),
            _ => Err(format!("{word} is neither follow nor nofollow")),
        }
    }
}

impl Word for Octal {
    fn word(&self) -> String {
        format!("0{:o}", self.0)
    }
    fn parse(word: &str) -> Result<Self, String> {
        let number = u32::from_str_radix(word, 8);
        number.map(Self).map_err(|_| format!("{word} is not an octal number"))
    }
}

/// Printable bytes are themselves, others `\xHH`; a long run of one byte is `\*COUNT*HH`.
impl Word for Path {
    fn word(&self) -> String {
        if self.0.is_empty() {
            return "''".into();
        }
        let mut word = String::new();
        for run in self.0.chunk_by(|one, next| one == next) {
            let byte = run[0];
            let plain = matches!(byte, b'!'..=b'~') && !matches!(byte, b'\\' | b'\'' | b'#' | b'*');
            if run.len() > 16 {
                word.push_str(&format!("\\*{}*{byte:02x}", run.len()));
            } else if plain {
                run.iter().for_each(|&byte| word.push(byte.into()));
            } else {
                run.iter().for_each(|byte| word.push_str(&format!("\\x{byte:02x}")));
            }
        }
        word
    }
    fn parse(word: &str) -> Result<Self, String> {
        if word == "''" {
            return Ok(Self(Vec::new()));
        }
        let mut parts = word.split('\\');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            let (count, rest) = match part.strip_prefix('*').and_then(|rest| rest.split_once('*')) {
                Some((count, rest)) => (usize::parse(count)?, rest),
                None => (1, part.strip_prefix('x').ok_or("\\x or \\* expected")?),
            };
            let digits = rest.get(..2).ok_or("two hex digits expected")?;
            let byte = u8::from_str_radix(digits, 16).map_err(|_| "hex digits expected")?;
            bytes.extend(std::iter::repeat_n(byte, count));
            bytes.extend(&rest.as_bytes()[2..]);
        }
        Ok(Self(bytes))
    }
}

impl Word for When {
    fn word(&self) -> String {
        match self {
            Self::Omit => "omit".into(),
            Self::Now => "now".into(),
            Self::At(time) => format!("{}.{:09}", time.secs, time.nanos),
        }
    }
    fn parse(word: &str) -> Result<Self, String> {
        match word {
            "omit" => Ok(Self::Omit),
            "now" => Ok(Self::Now),
            _ => {
                let (secs, nanos) = word.split_once('.').ok_or("seconds.nanoseconds expected")?;
                Ok(Self::At(Time { secs: Word::parse(secs)?, nanos: Word::parse(nanos)? }))
            }
        }
    }
}

impl Word for Value {
    fn word(&self) -> String {
        match self {
            Self::Fill(len, seed) => format!("fill:{len}:{seed}"),
            Self::Raw(bytes) => {
                bytes.iter().fold("hex:".into(), |word, byte| format!("{word}{byte:02x}"))
            }
            Self::Acl(entries) => {
                let entries: Vec<_> =
                    entries.iter().map(|(tag, perm, id)| format!("{tag}/{perm}/{id}")).collect();
                format!("acl:{}", entries.join(","))
            }
        }
    }
    fn parse(word: &str) -> Result<Self, String> {
        let (form, rest) = word.split_once(':').ok_or("fill:, hex: or acl: expected")?;
        match form {
            "fill" => {
                let (len, seed) = rest.split_once(':').ok_or("fill:LEN:SEED expected")?;
                Ok(Self::Fill(Word::parse(len)?, Word::parse(seed)?))
            }
            "hex" => {
                let digits = |at: usize| rest.get(at..at + 2).ok_or("an even number of digits");
                let byte = |at| u8::from_str_radix(digits(at)?, 16).map_err(|_| "hex digits");
                let bytes: Result<_, &str> = (0..rest.len()).step_by(2).map(byte).collect();
                Ok(Self::Raw(bytes?))
            }
            "acl" => {
                let entries = rest.split(',').filter(|entry| !entry.is_empty()).map(acl_entry);
                Ok(Self::Acl(entries.collect::<Result<_, _>>()?))
            }
            _ => Err(format!("{form} is none of fill, hex, acl")),
        }
    }
}

fn acl_entry(word: &str) -> Result<(u16, u16, u32), String> {
    let parts: Vec<u32> = word.split('/').map(Word::parse).collect::<Result<_, _>>()?;
    match parts[..] {
        [tag, perm, id] => Ok((tag as u16, perm as u16, id)),
        _ => Err(format!("{word} is not tag/perm/id")),
    }
}

const KINDS: [(Kind, &str); 7] = [
    (Kind::File, "file"),
    (Kind::Directory, "directory"),
    (Kind::Symlink, "symlink"),
    (Kind::Fifo, "fifo"),
    (Kind::Socket, "socket"),
    (Kind::CharDevice, "char"),
    (Kind::BlockDevice, "block"),
];

impl Word for Kind {
    fn word(&self) -> String {
        KINDS.iter().find(|(kind, _)| kind == self).map_or("file", |(_, word)| word).into()
    }
    fn parse(word: &str) -> Result<Self, String> {
        let found = KINDS.iter().find(|(_, name)| *name == word);
        found.map(|(kind, _)| *kind).ok_or_else(|| format!("{word} is no kind of file"))
    }
}
