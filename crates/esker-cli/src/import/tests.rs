//! A tree and an archive come out as they went in.
