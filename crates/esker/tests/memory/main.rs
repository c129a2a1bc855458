//! The memory home keeps the contract of `store`: it agrees with a plain model of files whatever
//! batches come, takes each whole or not at all whatever fails below, and gives back all space.

mod agrees;
mod chance;
mod concurrent;
mod embedded;
mod memories;
mod model;
mod player;
mod scenes;
mod story;
