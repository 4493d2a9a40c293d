//! What the drivers share: reading lines, and the mean of several rounds.
use cpu_time::ProcessTime;
use std::path::Path;

pub fn lines(folder: &str, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(folder).join(name)).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Microseconds of processor time for an item: the mean of rounds, of which the first ones are not counted.
pub fn mean<T>(items: &[T], mut act: impl FnMut(&T) -> usize) -> f64 {
    let (mut took, mut rounds) = (0.0, 0);
    for _ in 0..2 {
        let started = ProcessTime::now();
        (took, rounds) = (0.0, 0);
        while took < 0.5 {
            std::hint::black_box(items.iter().map(&mut act).sum::<usize>());
            (took, rounds) = (started.elapsed().as_secs_f64(), rounds + 1);
        }
    }
    took / rounds as f64 / items.len() as f64 * 1e6
}
