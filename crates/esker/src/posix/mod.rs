//! POSIX, once.
