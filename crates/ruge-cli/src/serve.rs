//! `ruge serve`: a model as an HTTP API.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use ruge::{ModelFile, OpenOptions};
use ruge_serve::{App, Guard, ServeError, Settings};

use crate::console::Console;
use crate::device::DeviceArgs;

/// Show a model in a browser: search, proposed facts with reasons, reviews, and the same as an HTTP API
///
/// Prints its address and answers until Ctrl-C or SIGTERM. Listens on this machine only, unless a token is given. Decisions and
/// added facts are kept in a file beside the model. A changed model file is read again by itself, and with SIGHUP. Answers of the
/// API are those of the other commands with --json; the page /docs describes it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ruge serve runs/demo --open
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
    /// File with the token that every request must have, of at least 32 characters [default: $RUGE_TOKEN, if set]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File of decisions and added facts [default: reviews.db in the model's folder]
    #[arg(long, value_name = "FILE")]
    reviews: Option<PathBuf>,
    /// Take no decisions and no facts
    #[arg(long)]
    read_only: bool,
    /// Do not look for new facts
    #[arg(long)]
    no_suggestions: bool,
    /// Open the first page in a browser
    #[arg(long)]
    open: bool,
    /// Path below which a proxy passes requests on, such as /kg
    #[arg(long, value_name = "PATH", default_value = "")]
    base_path: String,
    /// Origin whose pages may use the API, such as `https://app.example.org`; may be given several times
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    cors: Vec<String>,
    /// Origin that may show the pages in a frame, such as a notebook's; may be given several times
    #[arg(long, value_name = "ORIGIN")]
    frame_ancestors: Vec<String>,
    /// Another name of this server in the Host header; may be given several times
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Number of requests that may wait; more are answered with 503
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    max_queue: u16,
    #[command(flatten)]
    device: DeviceArgs,
}

/// The variable that holds the token where no file does.
const TOKEN: &str = "RUGE_TOKEN";

impl ServeArgs {
    /// A model on this machine, everything else at its default.
    pub fn plain(model: PathBuf, open: bool) -> Self {
        Self {
            model,
            listen: ruge_serve::DEFAULT,
            token_file: None,
            reviews: None,
            read_only: false,
            no_suggestions: false,
            open,
            base_path: String::new(),
            cors: Vec::new(),
            frame_ancestors: Vec::new(),
            allow_host: Vec::new(),
            max_queue: 256,
            device: DeviceArgs::default(),
        }
    }

    fn token(&self) -> Result<Option<String>> {
        let Some(path) = &self.token_file else {
            return Ok(std::env::var(TOKEN)
                .ok()
                .map(|token| token.trim().to_string())
                .filter(|token| !token.is_empty()));
        };
        let text =
            std::fs::read_to_string(path).with_context(|| format!("{}: cannot read the token", path.display()))?;
        Ok(Some(text.trim().to_string()))
    }

    /// Beside the model, unless another file is named.
    fn reviews(&self) -> PathBuf {
        let beside =
            || ModelFile::find(&self.model).parent().map(Path::to_path_buf).unwrap_or_default().join("reviews.db");
        self.reviews.clone().unwrap_or_else(beside)
    }
}

/// An origin; `null` and `*` would be anybody's.
fn origin(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    match text.split_once("://") {
        Some(("http" | "https", host)) if !host.is_empty() && !host.contains(['/', '*', ' ']) => Ok(text.to_string()),
        _ => {
            Err("write an origin such as https://app.example.org: a scheme, a host, and a port if there is one".into())
        }
    }
}

/// Runs `ruge serve MODEL`.
pub fn run(args: &ServeArgs, console: Console) -> Result<()> {
    let token = args.token()?;
    // Before the model is read: what cannot be served need not be loaded.
    let socket = ruge_serve::bind(args.listen, token.as_deref()).map_err(told)?;
    let address = socket.local_addr().context("cannot tell the address")?;
    let settings = Settings {
        guard: Guard::new(&args.allow_host, token.as_deref()).shared(&args.cors),
        threads: rayon::current_num_threads(),
        queue: args.max_queue.into(),
        reviews: Some(args.reviews()),
        read_only: args.read_only,
        suggests: !args.no_suggestions,
        base_path: args.base_path.clone(),
        frames: args.frame_ancestors.clone(),
    };
    let options = OpenOptions { device: args.device.name(), ..OpenOptions::default() };
    let app = App::open(&args.model, &options, &settings)?;
    let page = format!("http://{address}{}/", args.base_path.trim_end_matches('/'));
    console.result(&format!("{page}\n"))?;
    if args.open && !open_in_browser(&page) {
        console.note("note: no browser could be started; open the address yourself");
    }
    ruge_serve::serve(&app, socket).map_err(told)
}

/// Asks the system to show a page; false if it cannot.
fn open_in_browser(page: &str) -> bool {
    let (program, first): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/C", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    let quiet = std::process::Stdio::null;
    let started = std::process::Command::new(program)
        .args(first)
        .arg(page)
        .stdin(quiet())
        .stdout(quiet())
        .stderr(quiet())
        .spawn();
    started.is_ok()
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
