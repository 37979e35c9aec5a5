//! Medians and ratios.

use acp_bench::order::Outcome;
use serde::{Deserialize, Serialize};

use crate::works::Value;

/// What the rounds of one client came to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Rounds {
    /// What counts of each round: nanoseconds, or bytes.
    pub values: Vec<f64>,
    /// CPU time of a sample in each round, in nanoseconds.
    pub cpu_ns: Vec<f64>,
    /// The 99th percentile of each round, in nanoseconds.
    pub p99_ns: Vec<f64>,
    /// Peak memory, the greatest of all rounds, in bytes.
    pub peak_rss: u64,
}

impl Rounds {
    pub fn add(&mut self, mut outcome: Outcome, value: Value) {
        outcome.samples_ns.sort_unstable();
        outcome.baseline_ns.sort_unstable();
        let time = of_sorted(&outcome.samples_ns, 0.5);
        self.values.push(match value {
            Value::Time => time,
            Value::AddedTime => time - of_sorted(&outcome.baseline_ns, 0.5),
            Value::LaneBytes => outcome.lane_bytes as f64,
        });
        if !outcome.samples_ns.is_empty() {
            let samples = outcome.samples_ns.len() + outcome.baseline_ns.len();
            self.cpu_ns.push(outcome.cpu_ns as f64 / samples as f64);
            self.p99_ns.push(of_sorted(&outcome.samples_ns, 0.99));
        }
        self.peak_rss = self.peak_rss.max(outcome.peak_rss);
    }
}

/// How many times another, over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    pub median: f64,
    pub least: f64,
    pub greatest: f64,
    /// That of the least value of each: the round that was disturbed least.
    pub of_best: f64,
}

impl Ratio {
    /// Of values of the same rounds, so that what slows all down slows both. `None` without a round of both.
    pub fn of(values: &[f64], others: &[f64]) -> Option<Self> {
        let pairs = values.iter().zip(others);
        let mut ratios: Vec<f64> = pairs.map(|(value, other)| value / other).collect();
        let best = |values: &[f64]| values.iter().copied().reduce(f64::min);
        ratios.sort_by(f64::total_cmp);
        Some(Self {
            median: median(&ratios)?,
            least: *ratios.first()?,
            greatest: *ratios.last()?,
            of_best: best(values)? / best(others)?,
        })
    }
}

/// The median of values in any order; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// The nearest value to a quantile; zero of none.
fn of_sorted(sorted: &[u64], quantile: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * quantile).round() as usize;
    sorted.get(at).copied().unwrap_or_default() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(of_sorted(&[], 0.5), 0.0);
        let hundred: Vec<u64> = (0..=100).collect();
        assert_eq!(of_sorted(&hundred, 0.99), 99.0);
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let ratio = Ratio::of(&[2.0, 20.0, 300.0], &[1.0, 10.0, 100.0]).unwrap();
        assert_eq!((ratio.least, ratio.median, ratio.greatest), (2.0, 2.0, 3.0));
        assert_eq!(ratio.of_best, 2.0);
        assert_eq!(Ratio::of(&[1.0], &[]), None);
    }
}
