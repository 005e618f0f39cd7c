//! A policy that is only tried out.
