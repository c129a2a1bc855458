//! Files of every kind that is told from others: made here, or by other programs.

use esker_stone::Transform;

/// Bytes that repeat in part, from a seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = Vec::with_capacity(len + 64);
    while bytes.len() < len {
        let word = next();
        let count = (word >> 56) as usize % 40 + 1;
        let from = (word >> 8) as usize % (bytes.len() + 1);
        if word.is_multiple_of(3) && from + count < bytes.len() {
            bytes.extend_from_within(from..from + count);
        } else {
            bytes.extend((0..count).map(|_| next() as u8));
        }
    }
    bytes.truncate(len);
    bytes
}

/// Bytes that nothing shrinks.
pub fn chance(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Sound of a few tones, as a WAVE file with samples of 16 bits.
pub fn wave(channels: u16, samples: usize) -> Vec<u8> {
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0".to_vec();
    bytes.extend(channels.to_le_bytes());
    bytes.extend([0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0]);
    bytes.extend(b"data\0\0\0\0");
    let tone = |at: usize, len: usize| {
        let place = (at % len) as i32 - (len / 2) as i32;
        place * place
    };
    let sample = |at: usize| (tone(at, 150) + tone(at * 3, 191) + (at * at % 13) as i32) as i16;
    bytes.extend((0..samples).flat_map(|at| sample(at).to_le_bytes()));
    bytes
}

/// Sound of a shape as a file of its kind, with something behind it.
pub fn sound(width: u8, channels: u8, upper_first: bool, moments: usize) -> Vec<u8> {
    let mut bytes = match upper_first {
        true => b"FORM\0\0\0\0AIFFCOMM\0\0\0\x12\0".to_vec(),
        false => b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0".to_vec(),
    };
    let len = moments as u32 * u32::from(width) * u32::from(channels);
    if upper_first {
        bytes.extend([channels, 0, 0, 0, 0, 0, width * 8]);
        bytes.extend([0; 10]);
        bytes.extend(b"SSND");
        bytes.extend((len + 8).to_be_bytes());
        bytes.extend([0; 8]);
    } else {
        bytes.extend([channels, 0, 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, width * 8, 0]);
        bytes.extend(b"data");
        bytes.extend(len.to_le_bytes());
    }
    let mut state = 1u32;
    for at in 0..moments * usize::from(channels) {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = i64::from(state) >> if width > 1 { 40 - 8 * width } else { 29 };
        let place = (at % 347) as i64 - 173;
        let sample = ((place * place * 5) << (8 * width) >> 19) + noise;
        let mut own = sample.to_le_bytes()[..width.into()].to_vec();
        if upper_first {
            own.reverse();
        }
        bytes.extend(own);
    }
    bytes.extend(b"LIST and what stands in it");
    bytes
}

/// Machines by their numbers in ELF, and what is done to code for them; Thumb has the number of ARM.
pub const MACHINES: [(&str, u16, Transform); 5] = [
    ("x86", 62, Transform::X86),
    ("arm", 40, Transform::Arm),
    ("thumb", 40, Transform::Thumb),
    ("arm64", 183, Transform::Arm64),
    ("riscv", 243, Transform::Riscv),
];

/// A call of a function, in the words of a machine.
fn call(transform: Transform, from: u32, to: u32) -> Vec<u8> {
    let away = to.wrapping_sub(from);
    let bit = |at: u32, count: u32| away >> at & ((1 << count) - 1);
    match transform {
        Transform::X86 => [&[0xe8][..], &away.wrapping_sub(5).to_le_bytes()].concat(),
        Transform::Arm => {
            (0xeb00_0000 | away.wrapping_sub(8) >> 2 & 0x00ff_ffff).to_le_bytes().into()
        }
        Transform::Thumb => {
            let halves = away.wrapping_sub(4) >> 1;
            (0xf800_f000 | (halves & 0x7ff) << 16 | halves >> 11 & 0x7ff).to_le_bytes().into()
        }
        Transform::Arm64 => (0x9400_0000 | away >> 2 & 0x03ff_ffff).to_le_bytes().into(),
        _ => {
            let word = bit(20, 1) << 31 | bit(1, 10) << 21 | bit(11, 1) << 20 | bit(12, 8) << 12;
            (word | 0xef).to_le_bytes().into()
        }
    }
}

/// A program of so many calls: a head, code from 4096 on, and something behind it. Its version says what is called.
pub fn program(machine: u16, transform: Transform, version: u32, calls: u32) -> Vec<u8> {
    let mut code = Vec::new();
    for number in 0..calls {
        let chance = number.wrapping_mul(2_654_435_761);
        let to = 4096 * (chance >> 27) + if number % 97 == 0 { 64 * version } else { 0 };
        code.extend(call(transform, code.len() as u32, to));
        // What is between is not always as long.
        code.extend([0, 0x13, 0, 0].repeat((chance >> 9) as usize % 4));
    }
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(4096, 0);
    let numbers = [(16, 3), (18, machine.into()), (32, 64), (54, 56), (56, 1), (64, 1), (68, 5)];
    for (at, number) in numbers.into_iter().chain([(72, 4096), (96, code.len() as u32)]) {
        let len = if at < 64 && at != 32 { 2 } else { 4 };
        bytes[at..at + len].copy_from_slice(&number.to_le_bytes()[..len]);
    }
    bytes.extend(&code);
    bytes.extend(noise(machine.into(), 5000));
    bytes
}

/// Programs for every machine in two versions, one that is cut short, and code in a file that is none.
pub fn programs(calls: u32) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for (name, machine, transform) in MACHINES {
        for version in 0..2 {
            let bytes = program(machine, transform, version, calls);
            files.push((format!("{name} {version}"), bytes));
        }
    }
    files.push(("short".to_owned(), files[6].1[..files[6].1.len() / 2 + 1].to_vec()));
    files.push(("text".to_owned(), [&b"no head"[..], &files[0].1].concat()));
    files
}

/// Bytes with numbers of 4 bytes at places.
fn with(mut bytes: Vec<u8>, numbers: &[(usize, u32)]) -> Vec<u8> {
    for &(at, number) in numbers {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// A program of ELF as one of PE.
pub fn pe(program: &[u8]) -> Vec<u8> {
    let bytes = [&b"MZ"[..], &[0; 4094], &program[4096..]].concat();
    let len = program.len() as u32 - 9096;
    let head = [(0x3c, 128), (128, 0x4550), (132, 0x1_5064), (168 + 16, len), (168 + 20, 4096)];
    with(with(bytes, &head), &[(148, 16), (168 + 36, 0x6000_0020)])
}

/// And as one of Mach-O.
pub fn mach(program: &[u8]) -> Vec<u8> {
    let bytes = [&[0; 4096], &program[4096..]].concat();
    let len = program.len() as u32 - 9096;
    let head = [(0, 0xfeed_facf), (4, 0x0100_000c), (16, 1), (32, 0x19), (36, 152), (32 + 64, 1)];
    let section = [(104 + 40, len), (104 + 48, 4096), (104 + 64, 0x8000_0400)];
    with(with(bytes, &head), &section)
}

/// Text of four kinds: lines of programs, each file with names of its own beside those of all.
pub fn texts() -> Vec<(String, Vec<u8>)> {
    (0..4).map(|file| (format!("text {file}.c"), text(file, 5000))).collect()
}

/// So many lines of one of them.
fn text(file: u32, lines: u32) -> Vec<u8> {
    let chance = |at: u32| at.wrapping_mul(2_654_435_761) >> 20;
    let line = |at: u32| {
        let name = ["device", "buffer", "length", "offset"][(chance(at) % 4) as usize];
        let own = format!("driver_{}", file * 7 + chance(at + file) % 9);
        match chance(at ^ file) % 3 {
            0 => format!("\tif ({own}->{name} > {})\n\t\treturn -EINVAL;\n", chance(at + 1)),
            1 => format!("\tmutex_lock(&{own}->{name}_lock);\n"),
            _ => format!("\t{name} = {own}_read({name}, {});\n", chance(at + file + 2)),
        }
    };
    (0..lines).flat_map(|at| line(at).into_bytes()).collect()
}

/// Files of gzip and zip, by name.
pub const STREAMS: [(&str, &[u8]); 3] = [
    ("long.gz", include_bytes!("../streams/long.gz")),
    ("short.gz", include_bytes!("../streams/short.gz")),
    ("three.zip", include_bytes!("../streams/three.zip")),
];

/// Files of gzip by encoders beside zlib, by name; all have the same text.
pub const ENCODERS: [(&str, &[u8]); 4] = [
    ("cargo.gz", include_bytes!("../streams/cargo.gz")),
    ("go.gz", include_bytes!("../streams/go.gz")),
    ("ng.gz", include_bytes!("../streams/ng.gz")),
    ("node.gz", include_bytes!("../streams/node.gz")),
];

/// PNG files, by name.
pub const PICTURES: [(&str, &[u8]); 2] = [
    ("whole.png", include_bytes!("../streams/whole.png")),
    ("chunks.png", include_bytes!("../streams/chunks.png")),
];

/// Pictures of JPEG, by name; the last one comes in steps.
pub const JPEGS: [(&str, &[u8]); 6] = [
    ("colour.jpg", include_bytes!("../pictures/colour.jpg")),
    ("grey.jpg", include_bytes!("../pictures/grey.jpg")),
    ("marked.jpg", include_bytes!("../pictures/marked.jpg")),
    ("wide.jpg", include_bytes!("../pictures/wide.jpg")),
    ("print.jpg", include_bytes!("../pictures/print.jpg")),
    ("steps.jpg", include_bytes!("../pictures/steps.jpg")),
];

/// A pack of git: the streams of files of gzip, each as an object.
pub fn git(files: &[&[u8]]) -> Vec<u8> {
    let mut pack = b"PACK\0\0\0\x02\0\0\0\x05".to_vec();
    let heads: [&[u8]; 3] = [b"\xb0\x64", b"\xe0\x64\x81\x02", b"\xf0\x64twenty bytes of name"];
    for (file, head) in files.iter().zip(heads.iter().cycle()) {
        pack.extend(*head);
        pack.extend(b"\x78\x9c");
        pack.extend(&file[10..file.len() - 8]);
        pack.extend(b"adle");
    }
    pack.extend([0x5a; 20]);
    pack
}

/// A file, and what becomes of it.
pub struct Sample {
    pub name: String,
    pub bytes: Vec<u8>,
    /// The category of the blocks in which much of it lies at these levels, and little of it at others.
    pub category: u32,
    pub levels: &'static [usize],
}

/// Categories by their numbers, and the levels that tell them from others.
const PACKED: (u32, &[usize]) = (1, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
const SOUND: &[usize] = &[2, 3, 4, 5, 6, 7, 8, 9];
const STREAM: (u32, &[usize]) = (4, &[7, 8, 9]);
const SHORT_STREAM: (u32, &[usize]) = (4, &[5, 6, 7, 8, 9]);
const WORDS: (u32, &[usize]) = (12, &[4, 5, 6, 7, 8, 9]);
const PICTURE: (u32, &[usize]) = (14, &[7, 8, 9]);
/// What is anything, or not told apart for a reason of its own.
const ANYTHING: (u32, &[usize]) = (0, &[]);

fn of_sound(channels: u8) -> (u32, &'static [usize]) {
    (if channels > 2 { 7 } else { 1 + u32::from(channels) }, SOUND)
}

fn of_code(machine: Transform) -> (u32, &'static [usize]) {
    let number = match machine {
        Transform::X86 => 8,
        Transform::Arm | Transform::Thumb => 9,
        Transform::Arm64 => 10,
        _ => 11,
    };
    (number, &[4, 7, 8, 9])
}

/// Files of every kind that is told from others.
pub fn all_kinds() -> Vec<Sample> {
    kinds(4000, 1500)
}

/// One small file of each, of those that differ in how they are stored.
pub fn few_kinds() -> Vec<Sample> {
    const NAMES: [&str; 9] = [
        "arm64 0",
        "x86 0",
        "text 1.c",
        "2 1.aiff",
        "short.gz",
        "whole.png",
        "grey.jpg",
        "packed",
        "noise",
    ];
    let mut few = kinds(800, 300);
    few.retain(|file| NAMES.contains(&&file.name[..]));
    few
}

/// Programs of so many calls, and so many lines of each text.
fn kinds(calls: u32, lines: u32) -> Vec<Sample> {
    let mut all = Vec::new();
    let mut add = |name: &str, bytes: Vec<u8>, (category, levels)| {
        all.push(Sample { name: name.to_owned(), bytes, category, levels });
    };
    // Before others that have the same in them: what is known from those is not looked at.
    let [_, _, _, (_, arm64, on_arm64), (_, riscv, on_riscv)] = MACHINES;
    add("program.exe", pe(&program(riscv, on_riscv, 0, calls)), of_code(on_riscv));
    add("program.dylib", mach(&program(arm64, on_arm64, 0, calls)), of_code(on_arm64));
    let [(_, long), (_, short), _] = STREAMS;
    add("long.pack", git(&[short, long, short]), STREAM);
    add("short.pack", git(&[short, short]), SHORT_STREAM);
    for (name, machine, transform) in MACHINES {
        for version in 0..2 {
            let bytes = program(machine, transform, version, calls);
            add(&format!("{name} {version}"), bytes, of_code(transform));
        }
    }
    for file in 0..4 {
        add(&format!("text {file}.c"), text(file, lines), WORDS);
    }
    for (width, channels, upper_first) in
        [(1, 1, false), (2, 2, false), (2, 1, true), (3, 2, true), (4, 1, false), (2, 5, false)]
    {
        let end = if upper_first { "aiff" } else { "wav" };
        let bytes = sound(width, channels, upper_first, 5000);
        add(&format!("{width} {channels}.{end}"), bytes, of_sound(channels));
    }
    for (name, bytes) in STREAMS.into_iter().chain(ENCODERS).chain(PICTURES) {
        let levels = if bytes.len() < 5000 { SHORT_STREAM } else { STREAM };
        add(name, bytes.to_vec(), levels);
    }
    for (name, bytes) in JPEGS {
        add(name, bytes.to_vec(), if name == "steps.jpg" { ANYTHING } else { PICTURE });
    }
    add("packed", chance(30_000), PACKED);
    add("noise", noise(9, 50_000), ANYTHING);
    all
}
