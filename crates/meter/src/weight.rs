//! What each instruction weighs, by the Internet Computer's published table (wasmtime's instructions as its
//! execution layer charges them).

use wasmparser::Operator as Op;

/// The weight of an instruction, but for the bytes that bulk instructions move.
#[must_use]
pub const fn weight(op: &Op<'_>) -> u64 {
    match op {
        Op::Block { .. } | Op::Loop { .. } | Op::Else | Op::End => 0,
        Op::If { .. } | Op::Br { .. } | Op::BrIf { .. } | Op::BrTable { .. } => 2,
        Op::Call { .. } => 5,
        Op::CallIndirect { .. } => 10,
        Op::ReturnCall { .. } => 3,
        Op::ReturnCallIndirect { .. } => 60,
        Op::GlobalGet { .. } | Op::GlobalSet { .. } => 2,
        Op::TableGet { .. } | Op::TableSet { .. } => 5,
        Op::MemorySize { .. } => 20,
        Op::MemoryGrow { .. } | Op::DataDrop { .. } | Op::ElemDrop { .. } => 300,
        Op::MemoryCopy { .. } | Op::MemoryFill { .. } | Op::MemoryInit { .. } => 100,
        Op::TableCopy { .. }
        | Op::TableFill { .. }
        | Op::TableInit { .. }
        | Op::TableSize { .. } => 100,
        Op::TableGrow { .. } => 300,
        Op::I32DivS | Op::I32DivU | Op::I32RemS | Op::I32RemU => 10,
        Op::I64DivS | Op::I64DivU | Op::I64RemS | Op::I64RemU => 10,
        Op::F32Eq | Op::F32Ne | Op::F32Lt | Op::F32Gt | Op::F32Le | Op::F32Ge => 3,
        Op::F64Eq | Op::F64Ne | Op::F64Lt | Op::F64Gt | Op::F64Le | Op::F64Ge => 3,
        Op::F32Add | Op::F32Sub | Op::F32Mul | Op::F64Add | Op::F64Sub | Op::F64Mul => 2,
        Op::F32Ceil | Op::F32Floor | Op::F32Trunc | Op::F32Nearest => 2,
        Op::F64Ceil | Op::F64Floor | Op::F64Trunc | Op::F64Nearest | Op::F32Copysign => 2,
        Op::F32Div | Op::F64Copysign => 3,
        Op::F64Div | Op::F32Sqrt => 5,
        Op::F64Sqrt => 8,
        Op::F32Min | Op::F32Max | Op::F64Min | Op::F64Max => 18,
        Op::I32TruncF32S | Op::I32TruncF32U | Op::I32TruncF64S | Op::I32TruncF64U => 20,
        Op::I64TruncF32S | Op::I64TruncF32U | Op::I64TruncF64S | Op::I64TruncF64U => 20,
        Op::I32TruncSatF32S | Op::I32TruncSatF32U | Op::I32TruncSatF64S => 20,
        Op::I32TruncSatF64U | Op::I64TruncSatF32S | Op::I64TruncSatF32U => 20,
        Op::I64TruncSatF64S | Op::I64TruncSatF64U => 20,
        Op::F32ConvertI32S | Op::F32ConvertI64S | Op::F64ConvertI32S | Op::F64ConvertI64S => 3,
        Op::F32ConvertI32U | Op::F32ConvertI64U | Op::F64ConvertI32U | Op::F64ConvertI64U => 16,
        Op::RefIsNull => 5,
        Op::RefFunc { .. } => 130,
        _ => 1,
    }
}

/// The length that the instruction finds on the stack is charged too, one for each byte or entry.
#[must_use]
pub const fn charges_length(op: &Op<'_>) -> bool {
    matches!(
        op,
        Op::MemoryCopy { .. }
            | Op::MemoryFill { .. }
            | Op::MemoryInit { .. }
            | Op::TableCopy { .. }
            | Op::TableInit { .. }
            | Op::TableFill { .. }
    )
}

/// Where the counter must be right, because what comes next may be reached otherwise, or not at all.
#[must_use]
pub const fn ends_run(op: &Op<'_>) -> bool {
    matches!(
        op,
        Op::Loop { .. }
            | Op::If { .. }
            | Op::Else
            | Op::End
            | Op::Br { .. }
            | Op::BrIf { .. }
            | Op::BrTable { .. }
            | Op::Return
            | Op::Unreachable
    )
}
