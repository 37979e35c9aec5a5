//! A model on loopback.
