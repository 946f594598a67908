//! The streams of a job file as single copies, and the running of them.

mod board;
mod expand;
mod journal;
mod place;
mod schedule;

pub use board::{Board, show_board};
pub use expand::{Item, Items, expand};
pub use journal::{FINISHED, Journal};
pub use schedule::{End, schedule};
