//! What was measured of one thing, and what there is to say of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::terminal::millis;

/// Times of the same thing, in the order in which they were taken.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<Duration>);

/// What a row of the table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) min: Duration,
    pub(super) median: Duration,
    pub(super) p90: Duration,
}

impl Samples {
    pub(super) fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// `None` without samples.
    pub(super) fn spread(&self) -> Option<Spread> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let len = sorted.len();
        // Of an even number the two in the middle count for half each; p90 is the nearest rank, which of
        // less than ten samples is the longest.
        let below = sorted.get(len.checked_sub(1)? / 2)?;
        let above = sorted.get(len / 2)?;
        Some(Spread {
            min: *sorted.first()?,
            median: (*below + *above) / 2,
            p90: *sorted.get((len * 9).div_ceil(10) - 1)?,
        })
    }

    pub(super) fn median(&self) -> Option<Duration> {
        self.spread().map(|spread| spread.median)
    }

    /// Null without samples.
    pub(super) fn to_json(&self) -> Value {
        let all: Vec<f64> = self.0.iter().copied().map(millis).collect();
        self.spread().map_or(Value::Null, |spread| {
            json!({
                "min": millis(spread.min),
                "median": millis(spread.median),
                "p90": millis(spread.p90),
                "samples": all,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_of_few_and_many() {
        let spread = |times: &[u64]| {
            let mut samples = Samples::default();
            times
                .iter()
                .for_each(|&time| samples.add(Duration::from_millis(time)));
            let shown = samples.spread()?;
            Some([shown.min, shown.median, shown.p90].map(|time| time.as_millis()))
        };
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[7]), Some([7, 7, 7]));
        assert_eq!(spread(&[9, 1]), Some([1, 5, 9]));
        assert_eq!(spread(&[3, 1, 2]), Some([1, 2, 3]));
        let ten: Vec<u64> = (1..=10).rev().map(|n| n * 10).collect();
        assert_eq!(spread(&ten), Some([10, 55, 90]));
    }

    #[test]
    fn programs_get_every_sample_in_order() {
        let mut samples = Samples::default();
        assert_eq!(samples.to_json(), Value::Null);
        samples.add(Duration::from_millis(2));
        samples.add(Duration::from_micros(1500));
        assert_eq!(
            samples.to_json(),
            json!({"min": 1.5, "median": 1.75, "p90": 2.0, "samples": [2.0, 1.5]})
        );
    }
}
