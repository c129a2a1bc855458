//! A counter put into a module: every straight run of instructions first adds what it weighs to a new global, which is
//! exported as `cost`.
//!
//! Neighbours: `weight` has the figures, `host` reads the counter. Invariant: the module does what it did before.

use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{
    CodeSection, ConstExpr, ExportKind, ExportSection, Function, GlobalSection, GlobalType,
    Instruction, Module, ValType,
};
use wasmparser::{
    BinaryReaderError, CodeSectionReader, ExportSectionReader, FunctionBody, GlobalSectionReader,
    KnownCustom, Parser, Payload, TypeRef,
};

use crate::weight::{charges_length, ends_run, weight};

/// The name of the exported counter; in a profile, each function with a body adds to one of its own, whose name ends in
/// its number.
pub const COUNTER: &str = "cost";
/// As that, in a profile: what bulk instructions cost each function, their bytes included,
pub const BULK: &str = "bulk";
/// and how often it was called.
pub const CALLS: &str = "calls";
/// Counters of a body in a profile, in the order in which they stand.
pub const OWN: [&str; 3] = [COUNTER, BULK, CALLS];

/// What must be known of a module before its code.
#[derive(Default)]
struct Counting {
    /// Parameters of each function that has a body.
    params: Vec<u32>,
    /// The next body.
    next: usize,
    /// The counter.
    global: u32,
    /// Each body has a counter of its own besides, behind that one.
    profile: bool,
}

impl Counting {
    fn survey(bytes: &[u8]) -> Result<Self, Error> {
        let (mut types, mut found) = (Vec::new(), Self::default());
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::TypeSection(section) => {
                    for kind in section.into_iter_err_on_gc_types() {
                        types.push(kind?.params().len() as u32);
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        if matches!(import?.ty, TypeRef::Global(_)) {
                            found.global += 1;
                        }
                    }
                }
                Payload::FunctionSection(section) => {
                    for kind in section {
                        found.params.push(types.get(kind? as usize).copied().unwrap_or(0));
                    }
                }
                Payload::GlobalSection(section) => found.global += section.count(),
                _ => {}
            }
        }
        Ok(found)
    }

    /// One of the counters of the body at hand; `next` is behind it.
    fn own(&self, kind: usize) -> Option<u32> {
        self.profile.then(|| self.global + 1 + ((self.next - 1) * OWN.len() + kind) as u32)
    }

    /// The counters that the cost of the body at hand is added to.
    fn counters(&self) -> impl Iterator<Item = u32> + use<> {
        core::iter::once(self.global).chain(self.own(0))
    }

    /// Adds `cost` to the counter.
    fn add(&self, cost: u64, body: &mut Function) {
        for global in self.counters() {
            add_to(global, cost).iter().for_each(|instruction| {
                body.instruction(instruction);
            });
        }
    }

    /// Adds the number on the stack, which stays there, to the counter.
    fn add_length<'a>(&self, local: u32, run: &mut Vec<Instruction<'a>>) {
        run.push(Instruction::LocalTee(local));
        for global in self.counters().chain(self.own(1)) {
            run.extend([
                Instruction::GlobalGet(global),
                Instruction::LocalGet(local),
                Instruction::I64ExtendI32U,
                Instruction::I64Add,
                Instruction::GlobalSet(global),
            ]);
        }
    }
}

/// Adds a number to a counter.
fn add_to(global: u32, number: u64) -> [Instruction<'static>; 4] {
    [
        Instruction::GlobalGet(global),
        Instruction::I64Const(number.cast_signed()),
        Instruction::I64Add,
        Instruction::GlobalSet(global),
    ]
}

impl Reencode for Counting {
    type Error = core::convert::Infallible;

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: GlobalSectionReader<'_>,
    ) -> Result<(), Error> {
        wasm_encoder::reencode::utils::parse_global_section(self, globals, section)?;
        let counter = GlobalType { val_type: ValType::I64, mutable: true, shared: false };
        let own = if self.profile { self.params.len() * OWN.len() } else { 0 };
        for _ in 0..=own {
            globals.global(counter, &ConstExpr::i64_const(0));
        }
        Ok(())
    }

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        section: ExportSectionReader<'_>,
    ) -> Result<(), Error> {
        wasm_encoder::reencode::utils::parse_export_section(self, exports, section)?;
        exports.export(COUNTER, ExportKind::Global, self.global);
        let bodies = if self.profile { self.params.len() } else { 0 };
        let named =
            (0..bodies).flat_map(|body| OWN.iter().map(move |kind| format!("{kind}{body}")));
        for (name, global) in named.zip(self.global + 1..) {
            exports.export(&name, ExportKind::Global, global);
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader<'_>,
    ) -> Result<(), Error> {
        wasm_encoder::reencode::utils::parse_code_section(self, code, section)
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        func: FunctionBody<'_>,
    ) -> Result<(), Error> {
        let mut locals = Vec::new();
        let mut spare = self.params.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        for pair in func.get_locals_reader()? {
            let (count, kind) = pair?;
            spare += count;
            locals.push((count, self.val_type(kind)?));
        }
        locals.push((1, ValType::I32));
        let mut body = Function::new(locals);
        let (mut run, mut cost) = (Vec::new(), 0);
        run.extend(self.own(2).iter().flat_map(|&calls| add_to(calls, 1)));
        let mut reader = func.get_operators_reader()?;
        while !reader.eof() {
            let op = reader.read()?;
            let ends = ends_run(&op);
            cost += weight(&op);
            if charges_length(&op) {
                self.add_length(spare, &mut run);
                run.extend(self.own(1).iter().flat_map(|&bulk| add_to(bulk, weight(&op))));
            }
            run.push(self.instruction(op)?);
            if ends || reader.eof() {
                if cost > 0 {
                    self.add(cost, &mut body);
                }
                for instruction in run.drain(..) {
                    body.instruction(&instruction);
                }
                cost = 0;
            }
        }
        code.function(&body);
        Ok(())
    }
}

/// The module with a counter in it, and one for each function if there is to be a profile.
///
/// # Errors
/// When it cannot be read.
pub fn instrument(bytes: &[u8], profile: bool) -> Result<Vec<u8>, Error> {
    let mut counting = Counting { profile, ..Counting::survey(bytes)? };
    let mut module = Module::new();
    counting.parse_core_module(&mut module, Parser::new(0), bytes)?;
    Ok(module.finish())
}

/// The names of the functions with bodies, as far as the module tells.
///
/// # Errors
/// When it cannot be read.
pub fn names(bytes: &[u8]) -> Result<Vec<String>, BinaryReaderError> {
    let (mut imported, mut names) = (0, Vec::new());
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    imported += usize::from(matches!(import?.ty, TypeRef::Func(_)));
                }
            }
            Payload::FunctionSection(section) => {
                names.resize_with(section.count() as usize, String::new);
            }
            Payload::CustomSection(section) => {
                let KnownCustom::Name(sections) = section.as_known() else { continue };
                for section in sections {
                    let wasmparser::Name::Function(functions) = section? else { continue };
                    for naming in functions {
                        let naming = naming?;
                        let body = (naming.index as usize).checked_sub(imported);
                        if let Some(name) = body.and_then(|body| names.get_mut(body)) {
                            naming.name.clone_into(name);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Ok(names)
}
