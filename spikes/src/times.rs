//! Medians.

use std::time::Duration;

/// Milliseconds, to a tenth.
pub fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}

/// The middle one, and the shorter of the two in the middle of an even number; zero of nothing.
pub fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len().saturating_sub(1) / 2;
    sorted.get(middle).copied().unwrap_or_default()
}

/// `median (least–longest)`, in milliseconds.
pub fn spread(times: &[Duration]) -> String {
    let round = |time: Duration| millis(time).round();
    let least = times.iter().min().copied().unwrap_or_default();
    let longest = times.iter().max().copied().unwrap_or_default();
    let median = median(times);
    format!("{} ({}–{})", round(median), round(least), round(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_few() {
        let times = |millis: &[u64]| -> Vec<Duration> {
            millis.iter().copied().map(Duration::from_millis).collect()
        };
        assert_eq!(spread(&times(&[])), "0 (0–0)");
        assert_eq!(spread(&times(&[30, 10, 20])), "20 (10–30)");
        assert_eq!(spread(&times(&[40, 10, 20, 30])), "20 (10–40)");
    }
}
