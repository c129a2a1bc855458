//! Prints what each row costs each subject, in millions of instructions.
//!
//! `cargo run --release -p esker-meter -- [--profile] [BENCH[,BENCH..] [SUBJECT[,SUBJECT..]]]`: numbers as in `lib.rs`;
//! without them all benches but the largest, for bare memory, Esker and stable-fs at its default. With `--profile` the
//! functions that cost most in each row, what they call not included, what of it bulk instructions cost (100 and one
//! for each byte), and how often each was called.

use std::collections::BTreeMap;
use std::process::ExitCode;

use esker_meter::{BENCHES, Done, Guest, Row, SUBJECTS, build, instrument, names, run};

/// Functions in a profile.
const FUNCTIONS: usize = 40;

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let profile = words.first().is_some_and(|word| word == "--profile");
    words.drain(..usize::from(profile));
    let numbers = |index: usize, usual: &[u32]| match words.get(index) {
        Some(word) => word.split(',').map(str::parse).collect(),
        None => Ok(usual.to_vec()),
    };
    let (Ok(benches), Ok(subjects)) = (numbers(0, &[1, 2, 3, 4, 7, 8, 9]), numbers(1, &[0, 1, 16]))
    else {
        eprintln!("usage: esker-meter [--profile] [BENCH[,BENCH..] [SUBJECT[,SUBJECT..]]]");
        return ExitCode::from(2);
    };
    let print = if profile { print_profile } else { print };
    match print(&benches, &subjects) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("esker-meter: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(benches: &[u32], subjects: &[u32]) -> Result<(), String> {
    let mut modules = Vec::new();
    for guest in subjects.iter().map(|&subject| guest_of(subject, subjects)) {
        if modules.iter().all(|(built, _)| *built != guest) {
            let module = instrument(&build(guest)?, false).map_err(|error| error.to_string())?;
            modules.push((guest, module));
        }
    }
    for &bench in benches {
        let title = BENCHES.iter().find(|known| known.0 == bench).map_or("?", |known| known.1);
        let mut rows: Vec<String> = Vec::new();
        let mut found: BTreeMap<(String, u32), Row> = BTreeMap::new();
        for &subject in subjects {
            let guest = guest_of(subject, subjects);
            let Some((_, module)) = modules.iter().find(|(built, _)| *built == guest) else {
                continue;
            };
            let measured = run(module, subject, bench).map_err(|error| error.to_string())?;
            for row in measured {
                if !rows.contains(&row.name) {
                    rows.push(row.name.clone());
                }
                found.insert((row.name.clone(), subject), row);
            }
        }
        let names = subjects.iter().map(|subject| {
            SUBJECTS.iter().find(|known| known.0 == *subject).map_or("?", |known| known.1)
        });
        println!("\n| {title} | {} |", names.collect::<Vec<_>>().join(" | "));
        println!("|---|{}", "---|".repeat(subjects.len()));
        for name in rows {
            let cells = subjects.iter().map(|&subject| {
                found.get(&(name.clone(), subject)).map_or("–".to_owned(), |row| {
                    let millions = row.instructions as f64 / 1e6;
                    let stable = row.stable as f64 / 1e6;
                    match row.below {
                        0 => format!("{millions:.3} ({stable:.2} MB)"),
                        below => format!("{millions:.3} (below {:.3})", below as f64 / 1e6),
                    }
                })
            });
            println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
        }
    }
    Ok(())
}

/// The module that a subject is in: of ours, the one that others of the table need anyway.
fn guest_of(subject: u32, subjects: &[u32]) -> Guest {
    let peer = subjects.iter().any(|&subject| Guest::of(subject) == Guest::Peer);
    match Guest::of(subject) {
        Guest::Ours if peer => Guest::Peer,
        guest => guest,
    }
}

fn print_profile(benches: &[u32], subjects: &[u32]) -> Result<(), String> {
    for (&bench, &subject) in benches.iter().flat_map(|b| subjects.iter().map(move |s| (b, s))) {
        let bytes = build(guest_of(subject, subjects))?;
        let names = names(&bytes).map_err(|error| error.to_string())?;
        let module = instrument(&bytes, true).map_err(|error| error.to_string())?;
        for row in run(&module, subject, bench).map_err(|error| error.to_string())? {
            let code: u64 = row.functions.iter().map(|done| done.cost).sum();
            println!("\n{}: {} in all", row.name, row.instructions);
            let Row { reads, writes, dirty, .. } = row;
            let stable = row.instructions - code;
            println!("{stable:>14} {reads} reads, {writes} writes, {dirty} pages");
            let mut found: Vec<(Done, &String)> =
                row.functions.iter().copied().zip(&names).collect();
            found.sort_unstable_by(|a, b| b.cmp(a));
            let bulk: u64 = row.functions.iter().map(|done| done.bulk).sum();
            println!("{code:>14} code, {bulk} of it in bulk instructions");
            for (done, name) in found.iter().take(FUNCTIONS).take_while(|found| found.0.cost > 0) {
                println!(
                    "{:>14} {:>12} in bulk, {:>9} calls {name}",
                    done.cost, done.bulk, done.calls
                );
            }
        }
    }
    Ok(())
}
