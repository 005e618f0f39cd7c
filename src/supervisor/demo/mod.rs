//! `demo`: three broker front ends, an order client and the real supervisor on loopback, and a story.

pub mod broker;
pub mod client;
