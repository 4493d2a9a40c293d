//! Drives a-tree over a folder of messages and patterns; prints what python_drivers.py does.
use a_tree::{ATree, AttributeDefinition, Event};
use cpu_time::ProcessTime;
use engines::{lines, mean};
use std::collections::BTreeMap;

fn parse(tree: &ATree<usize>, text: &String) -> Event {
    let fields: BTreeMap<String, String> = serde_json::from_str(text).unwrap();
    let mut event = tree.make_event();
    for (name, value) in &fields {
        event.with_string(name, value).unwrap();
    }
    event.build().unwrap()
}

fn main() {
    let folder = std::env::args().nth(1).unwrap();
    let (messages, patterns) = (lines(&folder, "messages.json"), lines(&folder, "patterns.expression"));
    let fields: Vec<_> = (0..20).map(|at| AttributeDefinition::string(&format!("f{at}"))).collect();
    let mut tree = ATree::<usize>::new(&fields).unwrap();
    let started = ProcessTime::now();
    for (at, pattern) in patterns.iter().enumerate() {
        tree.insert(&at, pattern).unwrap();
    }
    let built = started.elapsed().as_secs_f64() / patterns.len() as f64 * 1e6;
    let events: Vec<_> = messages.iter().map(|text| parse(&tree, text)).collect();
    let search = |event: &Event| tree.search(event).unwrap().matches().len();
    let found: usize = events.iter().map(search).sum();
    println!(
        "{{\"build_us\": {built}, \"parse_us\": {}, \"match_us\": {}, \"together_us\": {}, \"true\": {found}}}",
        mean(&messages, |text| std::mem::size_of_val(std::hint::black_box(&parse(&tree, text)))),
        mean(&events, search),
        mean(&messages, |text| search(&parse(&tree, text))),
    );
}
