//! The tables of `references/state-machine.md`, read from the document and driven through the engine: every state, every
//! input, every cell. What the document says is what is compared, so neither can change without the other.

mod document;
mod errors;
mod flow;
mod health;
mod invariants;
mod switches;
mod world;
