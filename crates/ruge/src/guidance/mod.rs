//! What, besides the observed triples, pulls on the embeddings.

pub mod ptranse;
