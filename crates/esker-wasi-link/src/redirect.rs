//! A module written again without the imports that were redirected: every function behind them has another number, and
//! whoever names one names it by that.

use wasm_encoder::reencode::{Error as Reencoding, Reencode, utils};
use wasm_encoder::{
    ExportKind, ExportSection, ImportSection, Module, NameMap, NameSection, SectionId, StartSection,
};
use wasmparser::{
    CustomSectionReader, ExportSectionReader, ExternalKind, ImportSectionReader, Name, Parser,
};

use crate::survey::{Plan, Survey};
use crate::{Error, PREFIX};

/// Custom sections that would be wrong in the new module: they count its bytes.
const STALE: [&str; 3] = [".debug_", "reloc.", "sourceMappingURL"];

pub struct Redirect {
    /// The new number of every function.
    numbers: Vec<u32>,
    /// Whether a function is an import that goes.
    gone: Vec<bool>,
    rename_start: bool,
    /// The function that begins, exported until now; and whether it is still to be said.
    begins: Option<u32>,
    begin: Option<u32>,
}

impl Redirect {
    pub fn new(survey: &Survey, plan: &Plan) -> Self {
        let mut gone = vec![false; survey.functions() as usize];
        for found in &plan.redirected {
            gone[found.from as usize] = true;
        }
        let mut next = 0..;
        let mut numbers: Vec<u32> =
            gone.iter().map(|gone| if *gone { 0 } else { next.next().unwrap_or(0) }).collect();
        for found in &plan.redirected {
            numbers[found.from as usize] = numbers[found.to as usize];
        }
        let begins = survey.begins().filter(|_| !plan.redirected.is_empty());
        Self { numbers, gone, rename_start: !survey.has_initialize(), begins, begin: begins }
    }

    pub fn module(mut self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let mut module = Module::new();
        self.parse_core_module(&mut module, Parser::new(0), bytes)
            .map_err(|error| Error::Invalid(error.to_string()))?;
        Ok(module.finish())
    }

    fn is_gone(&self, function: u32) -> bool {
        self.gone.get(function as usize).copied().unwrap_or(false)
    }
}

type Outcome<T = ()> = Result<T, Reencoding>;

impl Reencode for Redirect {
    type Error = core::convert::Infallible;

    fn function_index(&mut self, function: u32) -> Outcome<u32> {
        Ok(self.numbers.get(function as usize).copied().unwrap_or(function))
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Outcome {
        let mut function = 0;
        for import in section.into_imports() {
            let import = import?;
            if matches!(import.ty, wasmparser::TypeRef::Func(_) | wasmparser::TypeRef::FuncExact(_))
            {
                function += 1;
                if self.is_gone(function - 1) {
                    continue;
                }
            }
            imports.import(import.module, import.name, self.entity_type(import.ty)?);
        }
        Ok(())
    }

    fn intersperse_section_hook(
        &mut self,
        module: &mut Module,
        _: Option<SectionId>,
        before: Option<SectionId>,
    ) -> Outcome {
        use SectionId::{Code, Data, DataCount, Element};

        if let None | Some(Element | DataCount | Code | Data) = before
            && let Some(function) = self.begin.take()
        {
            let function_index = self.function_index(function)?;
            module.section(&StartSection { function_index });
        }
        Ok(())
    }

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        section: ExportSectionReader<'_>,
    ) -> Outcome {
        for export in section {
            let export = export?;
            let function = export.kind == ExternalKind::Func;
            if function && export.name.starts_with(PREFIX) {
                continue;
            }
            if function && export.name == "_initialize" && self.begins.is_some() {
                continue;
            }
            if function && export.name == "_start" && self.rename_start {
                let index = self.function_index(export.index)?;
                exports.export("_initialize", ExportKind::Func, index);
                continue;
            }
            utils::parse_export(self, exports, export)?;
        }
        Ok(())
    }

    fn parse_custom_section(
        &mut self,
        module: &mut Module,
        section: CustomSectionReader<'_>,
    ) -> Outcome {
        if STALE.iter().any(|stale| section.name().starts_with(stale)) {
            return Ok(());
        }
        utils::parse_custom_section(self, module, section)
    }

    fn parse_custom_name_subsection(
        &mut self,
        names: &mut NameSection,
        section: Name<'_>,
    ) -> Outcome {
        let Name::Function(functions) = section else {
            return utils::parse_custom_name_subsection(self, names, section);
        };
        let mut kept = NameMap::new();
        for naming in functions {
            let naming = naming?;
            // The function that an import was redirected to has a name of its own.
            if !self.is_gone(naming.index) {
                kept.append(self.function_index(naming.index)?, naming.name);
            }
        }
        names.functions(&kept);
        Ok(())
    }
}
