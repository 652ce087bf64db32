//! Benchmark: an epoch of softmax training on a GPU, compared with its lower bound: each batch's three products.
//!
//! `cargo bench -p ruge-cuda --bench softmax -- [RANK] [BATCH]`: ComplEx with reciprocal relations on random triples of
//! FB15K's size. Without a GPU it prints a message and exits.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::time::Instant;

use ruge_cuda::{CudaModel, Device, measure_products};
use ruge_embed::scoring::{ComplEx, Reciprocal};
use ruge_embed::*;
use ruge_kg::random::{self, Stream};
use ruge_kg::{Graph, Triple};

const ENTITIES: u64 = 14_951;
const RELATIONS: u64 = 1_345;
const TRIPLES: u64 = 483_142;

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let (rank, batch) = (numbers.first().copied().unwrap_or(1000), numbers.get(1).copied().unwrap_or(1000));
    let device = match Device::open() {
        Ok(device) => device,
        Err(error) => return println!("nothing measured: {error}"),
    };
    let draw = |i, j, bound| random::below(random::draw(4, Stream(0xbe), j, i), bound) as u32;
    let triples: Vec<Triple> =
        (0..TRIPLES).map(|i| Triple::new(draw(i, 0, ENTITIES), draw(i, 1, RELATIONS), draw(i, 2, ENTITIES))).collect();
    let graph = Graph::new(ENTITIES as usize, RELATIONS as usize, &triples);
    let scoring = Reciprocal(ComplEx::new(rank));
    let start = Start::Normal { deviation: 1e-3, unit: false };
    let init = Init { entities: start, relations: start, shared: false };
    let rule = UpdateRule::AdaGrad { epsilon: 1e-10, inside: false };
    let optimizer = Optimizer { rule, entity_rate: 0.1, relation_rate: 0.1, cap: Cap::None };
    let embeddings = Embeddings::new(&scoring, ENTITIES as usize, RELATIONS as usize, &init, 5);
    let batches = (2 * TRIPLES).div_ceil(batch as u64) as f64;
    let products = measure_products(&device, batch, ENTITIES as usize, 2 * rank, 50).expect("a product");
    let floor = batches * products.iter().sum::<f64>();
    println!("{}, rank {rank}, batches of {batch}", device.name());
    let rate = |seconds: f64| 4.0 * batch as f64 * ENTITIES as f64 * rank as f64 / seconds / 1e12;
    println!("products alone   {floor:.3} s, at {:.0?} TFLOP/s", products.map(rate));
    for relations in [0.0, 1.0] {
        let softmax = Softmax { batch, relations, ..Softmax::default() };
        let plan = Plan { softmax: Some(softmax), ..Plan::new(&graph, &triples, 9) };
        let prepared = Instant::now();
        let _ = ruge_embed::softmax::Questions::new(&plan, &softmax, 1);
        let prepared = prepared.elapsed().as_secs_f64();
        let mut model = CudaModel::new(device.clone(), &scoring, &embeddings, optimizer).expect("a model");
        model.epoch(&plan, 1).expect("an epoch");
        let started = Instant::now();
        for epoch in 2..=4 {
            model.epoch(&plan, epoch).expect("an epoch");
        }
        let seconds = started.elapsed().as_secs_f64() / 3.0;
        let asks = if relations > 0.0 { ", relations asked for" } else { "" };
        println!(
            "epoch            {seconds:.3} s, {:.2} of the products{asks}; order {prepared:.3} s",
            seconds / floor
        );
    }
}
