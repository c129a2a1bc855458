//! What a file system stands on: memory, time, locks. All of it can be replaced by a liar in tests.

pub mod budget;
pub mod clock;
pub mod heap;
pub mod lender;
pub mod memory;
pub mod order;
pub mod region;
pub mod short;
pub mod sync;
pub mod undo;

pub use budget::Budget;
pub use clock::Clock;
pub use heap::Heap;
pub use lender::Lender;
pub use memory::{Memory, is_blank};
pub use region::Region;
pub use undo::Undo;
