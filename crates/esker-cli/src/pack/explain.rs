//! Why an image came out as it did: what was chosen for each kind of data, and what came of it.
//!
//! Above: `summary`, and `verbs` for an image that is there. Invariant: what is told was counted, not guessed.

use esker_image::pack::{
    CategoryUse, Choice, Choices, GroupUse, Left, Owns, Packed, Tried, UNPACK_FILE_MAX,
};
use esker_stone::Codec;
use serde_json::{Value, json};

use super::summary::ratio;
use crate::failure::shown;
use crate::units::size_shown;

/// Which streams were left as they are, and why.
fn left(own: &Choices) -> String {
    let Left { long, dense, unknown, unread, large } = own.left;
    let longest = format!("longer than {}", size_shown(own.stream_max.unwrap_or(0) as u64));
    let parts = [
        (long, longest.as_str()),
        (dense, "whose text would not be smaller"),
        (unknown, "by an encoder that cannot be guessed"),
        (unread, "that cannot be read or have too much text, with what is behind them"),
    ];
    let told = parts
        .iter()
        .filter(|(amount, _)| amount.count > 0)
        .map(|(amount, why)| format!("\n    {} {why}: {}", amount.count, size_shown(amount.bytes)));
    let mut told: String = told.collect();
    if large > 0 {
        told += &format!(
            "\n    those of {large} files larger than {}",
            size_shown(UNPACK_FILE_MAX as u64)
        );
    }
    if told.is_empty() { told } else { format!("\n  streams that were left as they are:{told}") }
}

/// The word that `--category` has for what is called otherwise.
fn kind_of(category: &str) -> String {
    let kind = Owns::name_of(category).filter(|kind| *kind != category);
    kind.map_or_else(String::new, |kind| format!(" [{kind}]"))
}

/// Groups of blocks, and why they share a base or not.
fn group_words(own: &GroupUse) -> String {
    let Tried { plain, alone, based } = own.tried;
    let tried = || {
        let [plain, alone, based] = [plain, alone, based].map(size_shown);
        format!("by trials: {plain} became {based} on it, {alone} without")
    };
    let why = match own.choice {
        Choice::Common => {
            let (covered, rest) = (size_shown(own.covered), size_shown(own.bytes - own.base));
            format!("on a base that has {covered} of the other {rest} too")
        }
        Choice::Short => "on a base, since streams are made of short blocks".to_owned(),
        Choice::Tried(true) => format!("on a base {}", tried()),
        Choice::Tried(false) => format!("without a base {}", tried()),
    };
    let (kind, bytes) = (kind_of(own.category), size_shown(own.bytes));
    format!("\n  groups of {}{kind}: {} of {bytes} {why}", own.category, own.count)
}

/// The same for a machine.
pub fn group(own: &GroupUse) -> Value {
    let Tried { plain, alone, based } = own.tried;
    let tried = json!({ "bytes": plain, "alone": alone, "on_base": based });
    let (why, based) = match own.choice {
        Choice::Common => ("in common", true),
        Choice::Short => ("short blocks", true),
        Choice::Tried(based) => ("tried", based),
    };
    json!({
        "category": own.category,
        "kind": Owns::name_of(own.category),
        "groups": own.count,
        "bytes": own.bytes,
        "base": own.base,
        "covered": own.covered,
        "on_base": based,
        "why": why,
        "tried": Some(tried).filter(|_| plain > 0),
    })
}

/// Why the image came out as it did, and the notes that were put into it.
pub fn explained(packed: &Packed, notes: &[(Vec<u8>, Vec<u8>)]) -> String {
    let own = &packed.choices;
    let mut text = String::from("how it was packed:");
    for (name, value) in notes {
        text += &format!("\n  {} {}", shown(name), shown(value));
    }
    text += &match own.repeats {
        None => "\n  stretches that were there before: not looked for".to_owned(),
        Some(least) => format!(
            "\n  stretches of {} and more that were there before: {}",
            size_shown(least as u64),
            size_shown(own.repeated),
        ),
    };
    text += &match own.alike {
        None => format!("\n  {} units in the order in which they came", own.units),
        Some(pairs) => format!("\n  {} units, like beside like: {pairs} pairs are", own.units),
    };
    text += &own.groups.iter().map(group_words).collect::<String>();
    if own.unpacked > 0 {
        let (streams, inside) = (size_shown(own.unpacked), size_shown(own.text));
        text += &format!("\n  streams of deflate: {streams}, stored as {inside} of text");
    }
    text += &left(own);
    let lines = own.categories.iter().map(|part| format!("\n  {}", category_words(part)));
    text + &lines.collect::<String>()
}

/// How blocks of a kind of data are stored, in words.
pub fn category_words(own: &CategoryUse) -> String {
    let kind = kind_of(own.name);
    let mut text = format!(
        "{}{kind}: {} blocks of up to {}, {} became {} (1 : {:.1})",
        own.name,
        own.blocks,
        size_shown(own.largest),
        size_shown(own.plain),
        size_shown(own.stored),
        ratio(own.plain, own.stored),
    );
    let codec = |&(codec, blocks): &(Codec, u64)| match codec {
        Codec::None => format!("{blocks} stored as they are"),
        Codec::Pcm | Codec::Jpeg => format!("{blocks} predicted"),
        codec => match own.setting.filter(|setting| setting.codec == codec) {
            Some(own) => format!("{blocks} with {own}"),
            None => format!("{blocks} with {}", codec.name()),
        },
    };
    let of = |(blocks, what): (u64, &str)| (blocks > 0).then(|| format!("{blocks} {what}"));
    let parts = [
        (own.based, "on a base"),
        (own.told, "told in words"),
        (own.filtered, "with branches told by where they go to"),
    ];
    let parts = own.codecs.iter().map(codec).chain(parts.into_iter().filter_map(of));
    text += "; ";
    text += &parts.collect::<Vec<_>>().join(", ");
    text
}

/// The same for a machine.
pub fn category(own: &CategoryUse) -> Value {
    let codecs = own.codecs.iter().map(|(codec, blocks)| (codec.name().to_owned(), json!(blocks)));
    json!({
        "category": own.name,
        "kind": Owns::name_of(own.name),
        "setting": own.setting.map(|own| own.to_string()),
        "codecs": codecs.collect::<serde_json::Map<_, _>>(),
        "blocks": own.blocks,
        "largest": own.largest,
        "based": own.based,
        "predicted": own.predicted(),
        "filtered": own.filtered,
        "told": own.told,
        "raw": own.raw(),
        "bytes": own.plain,
        "stored": own.stored,
    })
}
