//! `tsubaki doctor` on machines that are not this one: copies of their /proc and /sys, built from what was published of
//! real ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod findings;
mod machines;
mod plans;
mod refusals;
mod tree;
