//! Tar archives, made by hand so that they can be wrong.

/// One header block with the right checksum.
pub fn header(path: &[u8], flag: u8, size: u64, link: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..path.len()].copy_from_slice(path);
    block[100..108].copy_from_slice(b"0000644\0");
    block[108..116].copy_from_slice(b"0000000\0");
    block[116..124].copy_from_slice(b"0000000\0");
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    block[136..148].copy_from_slice(b"00000000017\0");
    block[156] = flag;
    block[157..157 + link.len()].copy_from_slice(link);
    block[257..265].copy_from_slice(b"ustar\x0000");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// A header and its body in whole blocks.
pub fn entry(path: &[u8], flag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = header(path, flag, body.len() as u64, b"");
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// A link, hard (`1`) or symbolic (`2`).
pub fn link(path: &[u8], flag: u8, target: &[u8]) -> Vec<u8> {
    header(path, flag, 0, target)
}

/// An extended header with these records.
pub fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let len = (1..).find(|len: &usize| len.to_string().len() + rest == *len).unwrap();
        body.extend(format!("{len} {key}=").as_bytes());
        body.extend(*value);
        body.push(b'\n');
    }
    entry(b"PaxHeaders/x", b'x', &body)
}

/// Entries with the mark of the end.
pub fn archive(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = parts.concat();
    bytes.extend([0; 1024]);
    bytes
}
