//! The server on a small model of the demo graph, mostly without a network.

mod audit;
mod common;
mod garbled;
mod http;
mod live;
mod pages;
mod reviews;
