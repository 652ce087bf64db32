//! `ruge serve`: a model as an HTTP API.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use ruge::OpenOptions;
use ruge_serve::{App, Guard, ServeError, Settings};

use crate::console::Console;
use crate::device::DeviceArgs;

/// Answer questions over HTTP: search, predictions, reasons, rules
///
/// Listens on this machine only, unless a token is given. Answers are those of the other commands with --json. /openapi.json
/// describes all endpoints. Ctrl-C or SIGTERM ends it after requests that have begun.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge serve runs/demo
  ruge serve runs/demo --listen 127.0.0.1:8080
  ruge serve runs/demo --listen 0.0.0.0:7997 --token-file token.txt --allow-host kg.example.org
  curl 'http://127.0.0.1:7997/api/v1/predict?head=France&relation=has_capital'")]
pub struct ServeArgs {
    /// A run folder or a model.safetensors
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT", default_value_t = ruge_serve::DEFAULT)]
    listen: SocketAddr,
    /// File with the token that every request must have, of at least 32 characters
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Another name of this server in the Host header; may be given several times
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Number of requests that may wait; more are answered with 503
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    max_queue: u16,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Runs `ruge serve MODEL`.
pub fn run(args: &ServeArgs, console: Console) -> Result<()> {
    let token = match &args.token_file {
        None => None,
        Some(path) => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("{}: cannot read the token", path.display()))?;
            Some(text.trim().to_string())
        }
    };
    // Before the model is read: what cannot be served need not be loaded.
    let socket = ruge_serve::bind(args.listen, token.as_deref()).map_err(told)?;
    let address = socket.local_addr().context("cannot tell the address")?;
    let guard = Guard::new(&args.allow_host, token.as_deref());
    let threads = rayon::current_num_threads();
    let settings = Settings { guard, threads, queue: args.max_queue.into() };
    let options = OpenOptions { device: args.device.name(), ..OpenOptions::default() };
    let app = App::open(&args.model, &options, &settings)?;
    console.result(&format!("http://{address}/\n"))?;
    ruge_serve::serve(&app, socket).map_err(told)
}

/// With what to type.
fn told(error: ServeError) -> anyhow::Error {
    let remedy = match &error {
        ServeError::Open { .. } => Some("give a token with --token-file FILE, or listen on 127.0.0.1".to_string()),
        ServeError::ShortToken { .. } => Some("make one with `openssl rand -hex 32`".to_string()),
        ServeError::Taken { address, free: Some(free) } => {
            let mut next = *address;
            next.set_port(*free);
            Some(format!("use the next free port: --listen {next}"))
        }
        _ => None,
    };
    match remedy {
        Some(remedy) => anyhow!("{error}\n  remedy: {remedy}"),
        None => error.into(),
    }
}
