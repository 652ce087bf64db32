//! Opens a page in a headless browser and measures what a reader would see.
//!
//! A copy of the page gets a script that measures it and stores the result in the title.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ruge_testing::Need;
use serde_json::Value;

const NAMES: [&str; 5] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

/// The first browser on the path, or the one named by `RUGE_BROWSER`.
pub fn find() -> Need<PathBuf> {
    match std::env::var_os("RUGE_BROWSER").filter(|name| !name.is_empty()) {
        Some(named) => Ok(named.into()),
        None => ruge_testing::program("a browser", &NAMES, "install chromium, or name a browser in RUGE_BROWSER"),
    }
}

/// Measures a page at `width` pixels, in light or dark. Panics if the browser does not respond.
pub fn look(browser: &Path, page: &Path, width: u32, dark: bool) -> Value {
    ask(browser, page, width, dark, PROBE)
}

/// What a script at the end of a page makes of it, by `tell(value)`.
pub fn ask(browser: &Path, page: &Path, width: u32, dark: bool, script: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(page).unwrap();
    // The page's policy forbids all scripts but its own; only this rule is lifted in the copy. The first such rule counts.
    let text = text.replacen("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';", 1);
    let text = text.replacen("script-src 'sha256-", "x-script-src 'sha256-", 1);
    let (before, after) = text.rsplit_once("</body>").expect("a whole page");
    let copy = folder.path().join("page.html");
    fs::write(&copy, format!("{before}<script>{TELL}{script}</script></body>{after}")).unwrap();
    let (dom, log) = open(browser, &copy, width, dark);
    let said: Vec<&str> =
        log.lines().filter(|line| line.contains("CONSOLE") && !line.contains("x-script-src")).collect();
    assert!(said.is_empty(), "the console speaks: {said:?}");
    let found = dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let (found, _) = found.unwrap_or_else(|| panic!("no page came back: {dom:.300}\n{log:.2000}"));
    serde_json::from_str(found).unwrap_or_else(|error| panic!("{error}: {found}\n{log:.2000}"))
}

/// Opens an unmodified page; returns the resulting page and the browser's log.
pub fn open(browser: &Path, page: &Path, width: u32, dark: bool) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let (out, errors) = (folder.path().join("dom.html"), folder.path().join("log.txt"));
    let mut child = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--hide-scrollbars", "--force-device-scale-factor=1", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--window-size={width},1000"))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&errors).unwrap())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: cannot start: {error}", browser.display()));
    let deadline = Instant::now() + Duration::from_secs(600);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{}: no answer", browser.display());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let dom = fs::read_to_string(&out).unwrap();
    let log = String::from_utf8_lossy(&fs::read(&errors).unwrap()).into_owned();
    (dom, log)
}

/// Asserts the properties of every page: the named sections and plots, in both sizes and colours, legible, not too
/// wide.
pub fn check(browser: &Path, page: &Path, sections: &[&str], plots: &[&str], graphs: usize) {
    for (width, dark) in [(1280, false), (360, true)] {
        let found = look(browser, page, width, dark);
        let list = |name: &str| -> Vec<String> { serde_json::from_value(found[name].clone()).unwrap() };
        let at = format!("at {width} pixels, dark: {dark}, found {found}");
        assert_eq!(found["dark"], dark, "{at}");
        assert_eq!(list("sections"), sections, "{at}");
        assert_eq!(list("plots"), plots, "{at}");
        assert_eq!(found["graphs"], graphs, "{at}");
        assert_eq!(list("wide"), Vec::<String>::new(), "wider than the page, {at}");
        assert!(found["overflow"].as_f64().unwrap() <= 0.0, "the page scrolls sideways {at}");
        assert!(found["letters"].as_f64().unwrap() >= 9.0, "letters too small to read {at}");
        assert!(found["contrast"].as_f64().unwrap() >= 4.0, "letters too pale to read {at}");
    }
}

/// The title is read as HTML, so what would be an entity there is an escape of JSON.
const TELL: &str = r#"
const tell = value => {
  document.title = JSON.stringify(value).replace(/[<>&]|[^\x20-\x7e]/g, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
};
"#;

const PROBE: &str = r#"
const box = e => e.getBoundingClientRect();
const all = s => [...document.querySelectorAll(s)];
const shown = e => box(e).width > 20 && box(e).height > 20;
const light = color => {
  const [r, g, b] = color.match(/[\d.]+/g).map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
};
const paper = light(getComputedStyle(document.body).backgroundColor);
const contrast = color => { const ink = light(color); return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05); };
const letters = all('svg text').filter(e => box(e).width > 0);
const scale = e => box(e.ownerSVGElement).width / e.ownerSVGElement.viewBox.baseVal.width;
tell({
  dark: matchMedia('(prefers-color-scheme: dark)').matches,
  overflow: document.documentElement.scrollWidth - innerWidth,
  wide: all('main *').filter(e => box(e).width > 0 && box(e).right > innerWidth + 1 && !e.closest('.scroll, pre, svg')).map(e => e.tagName),
  sections: all('main > section').filter(shown).map(e => e.id),
  plots: all('figure').filter(f => [...f.querySelectorAll('svg')].filter(shown).length === 1).map(f => f.id),
  graphs: all('.evidence').filter(f => [...f.querySelectorAll('svg')].filter(shown).length === 1).length,
  letters: Math.min(99, ...letters.map(e => parseFloat(getComputedStyle(e).fontSize) * scale(e))),
  contrast: Math.min(...letters.map(e => contrast(getComputedStyle(e).fill)),
                     ...all('p, td, th, li, dt, dd, a, label, button:enabled').filter(shown).map(e => contrast(getComputedStyle(e).color))),
});
"#;
