//! The examples run, and what they assert about themselves holds.

#[path = "../examples/ask.rs"]
mod ask;
#[path = "../examples/check.rs"]
mod check;
#[path = "../examples/guide.rs"]
mod guide;
#[path = "../examples/mine.rs"]
mod mine;
#[path = "../examples/own_scoring.rs"]
mod own_scoring;

#[test]
fn a_graph_is_loaded_and_checked() {
    check::main().unwrap();
}

#[test]
fn rules_are_mined_and_verified() {
    mine::main().unwrap();
}

#[test]
fn rules_guide_a_model() {
    guide::main().unwrap();
}

#[test]
fn an_engine_is_asked() {
    ask::main().unwrap();
}

#[test]
fn another_scoring_function_is_trained() {
    own_scoring::main().unwrap();
}
