//! Why an image came out as it did: what was chosen for each kind of data, and what came of it.
//!
//! Above: `summary`, and `verbs` for an image that is there. Invariant: what is told was counted, not guessed.

use esker_image::pack::{
    CategoryUse, Choices, GroupUse, Left, Owns, Packed, Tried, UNPACK_FILE_MAX,
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

/// Which groups of blocks share a base, and why.
fn groups(all: &[GroupUse]) -> String {
    let (mut text, mut rest) = (String::new(), all);
    while let Some(first) = rest.first() {
        let of = |own: &&GroupUse| own.category == first.category;
        let own;
        (own, rest) = rest.split_at(rest.iter().take_while(of).count());
        let bytes = own.iter().map(|group| group.bytes).sum();
        text += &format!(
            "\n  groups of {} that could share a base: {}, {}",
            first.category,
            own.len(),
            size_shown(bytes)
        );
        let untried: Vec<_> = own.iter().filter(|group| group.tried.is_none()).collect();
        if !untried.is_empty() {
            let (rest, covered) = untried.iter().fold((0, 0), |(rest, covered), group| {
                (rest + group.bytes - group.base, covered + group.covered)
            });
            text += &format!(
                "\n    {} on one, untried: it has {} of the other {} too",
                untried.len(),
                size_shown(covered),
                size_shown(rest),
            );
        }
        for based in [true, false] {
            let tried: Vec<_> = own
                .iter()
                .filter(|group| group.based == based)
                .filter_map(|group| group.tried)
                .collect();
            if !tried.is_empty() {
                let sum = |part: fn(&Tried) -> u64| size_shown(tried.iter().map(part).sum());
                text += &format!(
                    "\n    {} {} by trials: {} became {} on one, {} without",
                    tried.len(),
                    if based { "on one" } else { "without one" },
                    sum(|own| own.plain),
                    sum(|own| own.based),
                    sum(|own| own.alone),
                );
            }
        }
    }
    text
}

/// The same of one for a machine.
pub fn group(own: &GroupUse) -> Value {
    let tried = own.tried.map(
        |Tried { plain, alone, based }| json!({ "bytes": plain, "alone": alone, "on_base": based }),
    );
    json!({
        "category": own.category,
        "bytes": own.bytes,
        "base": own.base,
        "covered": own.covered,
        "tried": tried,
        "on_base": own.based,
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
    text += &groups(&own.groups);
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
    // As `--category` calls it.
    let kind = Owns::name_of(own.name).filter(|kind| *kind != own.name);
    let kind = kind.map_or_else(String::new, |kind| format!(" [{kind}]"));
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
