//! Drives Quamina's port to Rust over a folder of messages and patterns; prints what python_drivers.py does. It reads
//! of a message only what patterns ask for while it matches: to parse cannot be measured alone.
use cpu_time::ProcessTime;
use engines::{lines, mean};
use quamina::Quamina;

fn main() {
    let folder = std::env::args().nth(1).unwrap();
    let (messages, patterns) = (lines(&folder, "messages.json"), lines(&folder, "patterns.json"));
    let mut quamina = Quamina::new();
    let started = ProcessTime::now();
    for (at, pattern) in patterns.iter().enumerate() {
        quamina.add_pattern(at, pattern).unwrap();
    }
    let built = started.elapsed().as_secs_f64() / patterns.len() as f64 * 1e6;
    let search = |text: &String| quamina.matches_for_event(text.as_bytes()).unwrap().len();
    let found: usize = messages.iter().map(search).sum();
    println!(
        "{{\"build_us\": {built}, \"parse_us\": null, \"match_us\": null, \"together_us\": {}, \"true\": {found}}}",
        mean(&messages, search),
    );
}
