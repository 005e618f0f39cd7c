//! The only unsafe code of this package: eight words of a file as memory.

#![allow(unsafe_code, reason = "a mapping is memory that another process changes; nothing safe can say that")]

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

use memmap2::{Mmap, MmapOptions};

use super::layout::{SIZE, WORDS};

/// A feed's words, mapped for reading.
#[derive(Debug)]
pub(super) struct Mapped(Mmap);

impl Mapped {
    /// Maps the file, which must have [`SIZE`] bytes.
    pub(super) fn map(file: &File) -> io::Result<Self> {
        // SAFETY: what another process changes is only ever read through atomics, by `words`. A file that is made
        // shorter under the mapping ends the process by SIGBUS (it never gives wrong memory): whoever may write the
        // file was checked before.
        let mapping = unsafe { MmapOptions::new().len(SIZE).map(file)? };
        Ok(Self(mapping))
    }

    /// The words. Only relaxed loads are sound on them: the memory may not be written.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the mapping is SIZE bytes long, begins a page (so it is aligned), lives as long as `self`, and any bits
        // are an AtomicU64. Relaxed loads of eight bytes are sound on memory that may only be read.
        unsafe { &*self.0.as_ptr().cast() }
    }
}
