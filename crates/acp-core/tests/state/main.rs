//! What of a request goes into which session, on the engine alone with an agent that remembers.

mod policies;
mod rig;
mod tools;
