//! The README's code blocks, as doc tests.
#![doc = include_str!("../README.md")]
