//! What must be known of a module before anything in it is redirected.

use std::collections::BTreeMap;

use wasmparser::{
    ExternalKind, FuncType, FunctionBody, KnownCustom, Name, NameSectionReader, Operator, Parser,
    Payload, TypeRef,
};

use crate::{Error, Left, PREFIX, PREVIEW1, Why};

/// An import, in its place.
struct Import {
    module: String,
    name: String,
    /// Of a function: its number, and its type.
    function: Option<(u32, u32)>,
}

/// A module's types, imports, functions and exports.
#[derive(Default)]
pub struct Survey {
    types: Vec<Option<FuncType>>,
    imports: Vec<Import>,
    /// The type of every function, imported ones first.
    functions: Vec<u32>,
    imported: u32,
    /// What is linked in, by the name that it has in WASI.
    linked_in: BTreeMap<String, u32>,
    /// What is wrapped in which function that is linked in.
    wrapped: BTreeMap<u32, Wrapped>,
    /// Bodies so far.
    bodies: u32,
    /// The function that is exported as `_initialize`.
    initialize: Option<u32>,
    has_start: bool,
}

/// A function that only calls another one with its own arguments. A linker wraps so what is exported from a module that
/// is called and not initialised: before and behind each call from outside, what C has for a beginning and an end runs.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Wrapped {
    before: Option<u32>,
    function: u32,
    behind: Option<u32>,
}

/// One import to redirect.
pub struct Found {
    pub name: String,
    /// The imported function.
    pub from: u32,
    /// The one that is linked in.
    pub to: u32,
}

/// What shall become of the imports.
#[derive(Default)]
pub struct Plan {
    pub redirected: Vec<Found>,
    pub left: Vec<Left>,
}

fn is_plain(kind: &FuncType) -> bool {
    kind.params().is_empty() && kind.results().is_empty()
}

/// Functions that are linked in and not exported, as a linker for C leaves them: by their names for people. What is
/// wrong with these is nobody's loss.
fn linked_by_name(names: NameSectionReader<'_>) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    for names in names.into_iter().map_while(Result::ok) {
        let Name::Function(functions) = names else { continue };
        for naming in functions.into_iter().map_while(Result::ok) {
            if let Some(name) = naming.name.strip_prefix(PREFIX) {
                found.push((name.to_owned(), naming.index));
            }
        }
    }
    found
}

impl Survey {
    pub fn of(module: &[u8]) -> Result<Self, Error> {
        let mut found = Self::default();
        let mut named = Vec::new();
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(section) => {
                    for group in section {
                        found.types.extend(group?.into_types().map(|kind| {
                            match kind.composite_type.inner {
                                wasmparser::CompositeInnerType::Func(kind) => Some(kind),
                                _ => None,
                            }
                        }));
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        let function = match import.ty {
                            TypeRef::Func(kind) => Some(found.function(kind)),
                            _ => None,
                        };
                        let (module, name) = (import.module.to_owned(), import.name.to_owned());
                        found.imports.push(Import { module, name, function });
                    }
                    found.imported = found.functions.len() as u32;
                }
                Payload::FunctionSection(section) => {
                    for kind in section {
                        found.function(kind?);
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        if export.kind != ExternalKind::Func {
                            continue;
                        }
                        if let Some(name) = export.name.strip_prefix(PREFIX) {
                            found.linked_in.insert(name.to_owned(), export.index);
                        } else if export.name == "_initialize" {
                            found.initialize = Some(export.index);
                        }
                    }
                }
                Payload::StartSection { .. } => found.has_start = true,
                Payload::CodeSectionEntry(body) => {
                    let index = found.imported + found.bodies;
                    found.bodies += 1;
                    if found.linked_in.values().any(|known| *known == index)
                        && let Some(wrapped) = found.unwrap(index, &body)?
                    {
                        found.wrapped.insert(index, wrapped);
                    }
                }
                Payload::CustomSection(section) => {
                    if let KnownCustom::Name(names) = section.as_known() {
                        named = linked_by_name(names);
                    }
                }
                _ => {}
            }
        }
        found.unwrap_all();
        for (name, index) in named {
            found.linked_in.entry(name).or_insert(index);
        }
        Ok(found)
    }

    /// Whether something is exported as `_initialize`.
    pub const fn has_initialize(&self) -> bool {
        self.initialize.is_some()
    }

    /// What shall run when the module is brought up, and does not yet: a canister's system calls no `_initialize`.
    pub fn begins(&self) -> Option<u32> {
        let begin = self.initialize.filter(|_| !self.has_start)?;
        self.kind(begin).filter(|kind| is_plain(kind)).map(|_| begin)
    }

    fn kind(&self, function: u32) -> Option<&FuncType> {
        self.types.get(*self.functions.get(function as usize)? as usize)?.as_ref()
    }

    /// What a function wraps, if that is all that it does.
    fn unwrap(&self, index: u32, body: &FunctionBody<'_>) -> Result<Option<Wrapped>, Error> {
        let plain = |operator: &Operator<'_>| match *operator {
            Operator::Call { function_index } => {
                Some(function_index).filter(|index| self.kind(*index).is_some_and(is_plain))
            }
            _ => None,
        };
        let Some(own) = self.kind(index) else { return Ok(None) };
        let mut operators = body.get_operators_reader()?;
        let mut next = operators.read()?;
        let before = plain(&next);
        if before.is_some() {
            next = operators.read()?;
        }
        for param in 0..own.params().len() as u32 {
            if !matches!(next, Operator::LocalGet { local_index } if local_index == param) {
                return Ok(None);
            }
            next = operators.read()?;
        }
        let Operator::Call { function_index: function } = next else { return Ok(None) };
        next = operators.read()?;
        let behind = plain(&next);
        if behind.is_some() {
            next = operators.read()?;
        }
        let whole = matches!(next, Operator::End) && self.kind(function) == Some(own);
        Ok(whole.then_some(Wrapped { before, function, behind }))
    }

    /// From inside of a module nothing begins or ends with a call of WASI: if all that is linked in is wrapped in the
    /// same way, what is wrapped is called. Otherwise output that C has gathered would be written at each call, by a
    /// call, without end.
    fn unwrap_all(&mut self) {
        let mut ways = self.wrapped.values().map(|wrapped| (wrapped.before, wrapped.behind));
        let Some(first) = ways.next() else { return };
        let alike = first != (None, None) && ways.all(|way| way == first);
        if alike && self.linked_in.values().all(|index| self.wrapped.contains_key(index)) {
            for index in self.linked_in.values_mut() {
                *index = self.wrapped[&*index].function;
            }
        }
    }

    /// One more function; its number and its type.
    fn function(&mut self, kind: u32) -> (u32, u32) {
        self.functions.push(kind);
        (self.functions.len() as u32 - 1, kind)
    }

    /// How many functions there are.
    pub fn functions(&self) -> u32 {
        self.functions.len() as u32
    }

    fn same_type(&self, one: u32, other: u32) -> bool {
        let kind = |index: u32| self.types.get(index as usize).and_then(Option::as_ref);
        kind(one).is_some() && kind(one) == kind(other)
    }

    pub fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        for import in &self.imports {
            match self.target(import) {
                Ok((from, to)) => {
                    plan.redirected.push(Found { name: import.name.clone(), from, to });
                }
                Err(why) => {
                    let name = format!("{}.{}", import.module, import.name);
                    plan.left.push(Left { name, why });
                }
            }
        }
        plan
    }

    /// The imported function and the one that is linked in, or why there are not both.
    fn target(&self, import: &Import) -> Result<(u32, u32), Option<Why>> {
        if import.module != PREVIEW1 {
            return Err(import.module.starts_with("wasi").then_some(Why::OtherVersion));
        }
        let (from, kind) = import.function.ok_or(Some(Why::OtherVersion))?;
        let to = self.linked_in.get(&import.name).copied().ok_or(Some(Why::Missing))?;
        // One that is imported itself leads nowhere.
        if to < self.imported {
            return Err(Some(Why::Missing));
        }
        let same =
            self.functions.get(to as usize).is_some_and(|other| self.same_type(kind, *other));
        if same { Ok((from, to)) } else { Err(Some(Why::OtherType)) }
    }
}
