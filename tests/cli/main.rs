//! The binary as its users meet it: what it prints where, and its exit status.

#![cfg(feature = "cli")]

mod check;
mod faults;
mod plans;
mod replay;
mod shell;
mod tools;
