//! The mock model as a program.
fn main() {}
