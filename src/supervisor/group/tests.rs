//! The staged switch, event by event.
