//! The command line as users type it. One program for all of it: linking twenty takes longer than most of them run. Tests that need more than the repository are in
//! `needs`.

mod http;
mod support;

mod check;
mod combine;
mod data_get;
mod device;
mod distance;
mod explain;
mod export;
mod inputs;
mod isa;
mod output;
mod predict;
mod ptranse;
mod reliable;
mod report;
mod reproduce;
mod rules;
mod run;
mod sampled;
mod search;
mod softmax;
mod terminal;
mod train;
mod truth;
#[cfg(unix)]
mod tutorial;
mod unseen;
