//! How long the harness waits. All of its time is here.

use std::{env, time::Duration};

/// The environment variable that multiplies every limit, for slow machines.
pub const SCALE_ENV: &str = "ACP_TIME_SCALE";

/// The limits of one cell, and of what comes before the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// For the driver's start and its answers to `hello` and `bye`.
    pub hello: Duration,
    /// For the client's first line: until it comes, processes start.
    pub start: Duration,
    /// For any later wait in a transcript, beyond the deadlines that the transcript sets itself.
    pub wait: Duration,
    /// For the operating system to carry out what the client has done: a killed process that is not
    /// quite gone yet, a last line on its way.
    pub settle: Duration,
    /// For a port's build command.
    pub build: Duration,
}

impl Limits {
    /// The limits of the specification, multiplied by `scale`.
    pub fn scaled(scale: f64) -> Limits {
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds * scale);
        Limits {
            hello: seconds(5.0),
            start: seconds(10.0),
            wait: seconds(10.0),
            settle: seconds(0.5),
            build: seconds(600.0),
        }
    }

    /// The same with a quarter of the wait, for what is expected to hang. A start is given its time: one
    /// that is only slow would pass for the failure that is expected.
    pub fn impatient(self) -> Limits {
        Limits {
            wait: self.wait / 4,
            ..self
        }
    }

    /// The limits of the specification, multiplied by what [`SCALE_ENV`] says.
    pub fn from_env() -> Result<Limits, ScaleError> {
        scale_from_env().map(Limits::scaled)
    }
}

/// What [`SCALE_ENV`] says, 1 if it is not set.
pub fn scale_from_env() -> Result<f64, ScaleError> {
    match env::var(SCALE_ENV) {
        Err(env::VarError::NotPresent) => Ok(1.0),
        Err(env::VarError::NotUnicode(text)) => {
            Err(ScaleError(text.to_string_lossy().into_owned()))
        }
        Ok(text) => parse_scale(&text),
    }
}

/// The scale is not a number from 0.01 to 1000.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{SCALE_ENV} is not a number from 0.01 to 1000: {0:?}")]
pub struct ScaleError(String);

fn parse_scale(text: &str) -> Result<f64, ScaleError> {
    text.parse()
        .ok()
        .filter(|scale| (0.01..=1000.0).contains(scale))
        .ok_or_else(|| ScaleError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_multiplies_every_limit() {
        let limits = Limits::scaled(parse_scale("2").unwrap());
        assert_eq!(limits.hello, Duration::from_secs(10));
        assert_eq!(limits.start, Duration::from_secs(20));
        assert_eq!(limits.wait, Duration::from_secs(20));
        assert_eq!(limits.settle, Duration::from_secs(1));
        assert_eq!(limits.build, Duration::from_secs(1200));
    }

    #[test]
    fn what_is_expected_to_hang_may_still_start_slowly() {
        let limits = Limits::scaled(1.0);
        let wait = limits.wait / 4;
        assert_eq!(limits.impatient(), Limits { wait, ..limits });
    }

    #[test]
    fn a_scale_that_would_switch_limits_off_is_refused() {
        for text in ["", "0", "-1", "inf", "NaN", "1e9", "two"] {
            assert!(parse_scale(text).is_err(), "{text}");
        }
    }
}
