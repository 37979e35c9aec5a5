//! What a spike claims, and whether it holds.

use std::io;
use std::process::ExitCode;

/// Claims, in the order in which they were made.
#[derive(Debug, Default)]
pub struct Claims(Vec<(String, bool)>);

impl Claims {
    /// Notes whether this holds.
    pub fn claim(&mut self, claim: impl Into<String>, held: bool) {
        self.0.push((claim.into(), held));
    }
}

/// Prints the claims. The exit code is 0 if all of them hold, 1 if one does not, and 2 if nothing could be
/// measured.
pub fn conclude(measured: io::Result<Claims>) -> ExitCode {
    match measured {
        Ok(Claims(claims)) => {
            println!();
            for (claim, held) in &claims {
                println!("- {}: {claim}", if *held { "held" } else { "FALSIFIED" });
            }
            ExitCode::from(u8::from(!claims.iter().all(|(_, held)| *held)))
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
