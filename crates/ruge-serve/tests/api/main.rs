//! The server on a small model of the demo graph, mostly without a network.

mod common;
mod http;
mod live;
mod pages;
mod reviews;
