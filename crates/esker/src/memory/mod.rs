//! The memory home.
