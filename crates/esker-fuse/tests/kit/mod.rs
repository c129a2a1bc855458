//! Requests as bytes, for tests that play the kernel.
#![allow(dead_code, reason = "each test file uses its part")]

use esker_fuse::wire::{InHeader, Opcode};

/// A request from user 1000, group 100.
pub fn request(opcode: Opcode, node: u64, body: &[&[u8]]) -> Vec<u8> {
    raw(opcode as u32, node, body, &[])
}

/// A request with any opcode and with extensions behind its body.
pub fn raw(opcode: u32, node: u64, body: &[&[u8]], extensions: &[u8]) -> Vec<u8> {
    let body = body.concat();
    let header = InHeader {
        len: (InHeader::SIZE + body.len() + extensions.len()) as u32,
        opcode,
        unique: 7,
        nodeid: node,
        uid: 1000,
        gid: 100,
        pid: 4321,
        total_extlen: (extensions.len() / 8) as u16,
        padding: 0,
    };
    [&header.encode()[..], &body, extensions].concat()
}

/// Marsaglia's xorshift: enough chance for a test, and the same every time.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
