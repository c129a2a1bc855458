//! fsx for any directory: `esker-fsx [--seed N] [--count N] [--size BYTES] [--length BYTES] DIR`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use esker_proof::fsx::{Plan, run};

const USAGE: &str = "\
esker-fsx: random I/O on two files in a directory, every byte checked

usage: esker-fsx [--seed N] [--count N] [--size BYTES] [--length BYTES] DIR

  --seed N        of the chance; 0x… for hexadecimal   [1]
  --count N       operations                           [100000]
  --size BYTES    largest size of a file               [262144]
  --length BYTES  longest operation                    [65536]";

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn plan() -> Option<Plan> {
    let mut plan = Plan::new(Path::new(""), 1, 100_000);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match &*arg {
            "--seed" => plan.seed = number(&args.next()?)?,
            "--count" => plan.count = number(&args.next()?)?,
            "--size" => plan.size_max = number(&args.next()?)?.max(2),
            "--length" => plan.len_max = number(&args.next()?)?.max(1),
            _ if arg.starts_with('-') => return None,
            _ => plan.folder = arg.into(),
        }
    }
    Some(plan).filter(|plan| plan.folder.is_dir())
}

fn main() -> ExitCode {
    let Some(plan) = plan() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let begun = Instant::now();
    match run(&plan) {
        Ok(tally) => {
            let secs = begun.elapsed().as_secs_f64();
            println!("seed {:#x}: {} operations in {secs:.1} s ({tally})", plan.seed, plan.count);
            ExitCode::SUCCESS
        }
        Err(story) => {
            eprintln!("{story}");
            ExitCode::FAILURE
        }
    }
}
