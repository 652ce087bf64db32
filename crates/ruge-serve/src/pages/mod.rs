//! Pages for people: made here, complete without script, and with nothing from elsewhere.
//!
//! Every address in a page is relative, so that it holds below any path of a proxy; all pages therefore stand at the same level. A
//! page is a function of a [`View`]; a form is one that changes something and names the page to go to.

use std::sync::Arc;

use axum::http::{HeaderMap, Method, StatusCode, header};
use ruge::Cancel;

use crate::app::App;
use crate::ask::Ask;
use crate::html::{Html, Name, Value};
use crate::problem::Problem;
use crate::snapshot::Snapshot;

mod ask;
mod docs;
mod entity;
mod fact;
mod forms;
mod home;
mod model;
mod neighbourhood;
mod parts;
mod relation;
mod review;
mod rules;
mod search;

/// A place in a list at most.
const MOST: usize = u32::MAX as usize;

/// What a page or an endpoint with decisions looks at.
pub struct View {
    /// The server.
    pub app: Arc<App>,
    /// The model.
    pub snapshot: Arc<Snapshot>,
    /// Who asks, if that was said.
    pub reviewer: Option<String>,
    /// This page's own address, from the level of all pages.
    pub here: String,
}

/// A page's title, contents and script of its own.
pub struct Content {
    title: String,
    main: Html,
    script: Option<&'static str>,
}

impl Content {
    fn new(title: impl Into<String>, main: Html) -> Self {
        Self { title: title.into(), main, script: None }
    }

    fn with_script(self, script: &'static str) -> Self {
        Self { script: Some(script), ..self }
    }
}

/// Where a form leads.
pub struct Go {
    /// An address at the level of all pages.
    pub to: String,
    /// A cookie to set.
    pub cookie: Option<String>,
}

/// What a page does.
#[derive(Clone, Copy)]
pub enum Shows {
    /// Shows something.
    Page(fn(&View, &Ask, &Cancel) -> Result<Content, Problem>),
    /// Changes something.
    Form(fn(&View, &Ask, &Cancel) -> Result<Go, Problem>),
}

/// A page or form.
pub struct Page {
    /// Its address.
    pub path: &'static str,
    /// Names of parameters.
    pub params: &'static [&'static str],
    /// What it does.
    pub shows: Shows,
}

impl Page {
    /// How it is asked for.
    pub fn method(&self) -> Method {
        if self.writes() { Method::POST } else { Method::GET }
    }

    /// Whether it changes something.
    pub fn writes(&self) -> bool {
        matches!(self.shows, Shows::Form(_))
    }
}

const fn page(
    path: &'static str,
    params: &'static [&'static str],
    show: fn(&View, &Ask, &Cancel) -> Result<Content, Problem>,
) -> Page {
    Page { path, params, shows: Shows::Page(show) }
}

const fn form(
    path: &'static str,
    params: &'static [&'static str],
    act: fn(&View, &Ask, &Cancel) -> Result<Go, Problem>,
) -> Page {
    Page { path, params, shows: Shows::Form(act) }
}

/// All pages and forms.
pub const PAGES: &[Page] = &[
    page("/", &[], home::show),
    page("/search", &["q"], search::show),
    page("/entity", &["name", "more"], entity::show),
    page("/facts", &["head", "relation", "tail", "cursor"], entity::facts),
    page("/fact", &["head", "relation", "tail"], fact::show),
    page("/ask", &["head", "relation", "tail", "new", "typed", "top"], ask::show),
    page("/relations", &["cursor"], relation::list),
    page("/relation", &["name"], relation::show),
    page("/rules", &["head", "q", "min_confidence", "min_support", "sort", "cursor"], rules::list),
    page("/rule", &["id"], rules::show),
    page("/review", &["relation", "min_truth", "state", "page"], review::show),
    page("/model", &[], model::show),
    page("/docs", &[], docs::show),
    form("/decide", &["head", "relation", "tail", "decision", "note", "back"], forms::decide),
    form("/reviewer", &["reviewer", "back"], forms::reviewer),
];

/// What stands at the top of every page.
const MENU: &[(&str, &str)] = &[
    ("review", "Review"),
    ("ask", "Ask"),
    ("relations", "Relations"),
    ("rules", "Rules"),
    ("model", "Model"),
    ("docs", "API"),
];

/// The whole document.
pub fn whole(view: &View, content: Content) -> String {
    let here = view.here.split('?').next().unwrap_or_default();
    let mut menu = Html::new();
    for (page, name) in MENU {
        let section = match here {
            "rule" => "rules",
            "relation" => "relations",
            other => other,
        };
        let current = if section == *page { Html::of(" aria-current=\"page\"", &[]) } else { Html::new() };
        menu.put("<li><a href=\"{}\"{}>{}</a></li>", &[page, &current, name]);
    }
    let script = content.script.map(|name| Html::of("<script type=\"module\" src=\"assets/{}\"></script>", &[&name]));
    let typed = if here == "search" { view.here.split_once("q=").map(|(_, rest)| rest.to_string()) } else { None };
    let typed = typed
        .and_then(|rest| form_urlencoded::parse(format!("q={rest}").as_bytes()).next().map(|(_, q)| q.into_owned()));
    let typed = typed.unwrap_or_default();
    let typed = Value(&typed);
    let footer = footer(view);
    Html::of(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"same-origin\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{} · ruge</title>\n\
         <link rel=\"stylesheet\" href=\"assets/ruge.css\">\n<link rel=\"icon\" href=\"assets/icon.svg\">\n\
         <script type=\"module\" src=\"assets/ruge.js\"></script>\n{}</head>\n<body>\n<a class=\"jump\" href=\"#main\">Skip to the content</a>\n\
         <header>\n<a class=\"brand\" href=\"./\">ruge</a>\n\
         <form role=\"search\" action=\"search\"><label for=\"search\" class=\"unseen\">Search</label>\
         <input id=\"search\" name=\"q\" type=\"search\" value=\"{}\" placeholder=\"Search\" autocomplete=\"off\" \
         data-complete=\"entity,relation\" data-go=\"\" maxlength=\"400\"></form>\n\
         <nav aria-label=\"Pages\"><ul>{}</ul></nav>\n</header>\n<main id=\"main\" tabindex=\"-1\">\n{}</main>\n<footer>{}</footer>\n\
         <p id=\"said\" class=\"unseen\" role=\"status\" aria-live=\"polite\"></p>\n</body>\n</html>\n",
        &[&content.title, &script, &typed, &menu, &content.main, &footer],
    )
    .into_string()
}

fn footer(view: &View) -> Html {
    let data = view.snapshot.data();
    let mut html = Html::of("{} entities, {} relations", &[&data.entity_count(), &data.relation_count()]);
    html.put(" · model <code>{}</code>", &[&view.snapshot.hash.get(..8).unwrap_or(&view.snapshot.hash)]);
    if view.app.read_only {
        html.put(" · read only", &[]);
    }
    html
}

/// A page for what went wrong.
pub fn trouble(view: &View, problem: &Problem) -> String {
    if problem.status == StatusCode::UNAUTHORIZED {
        return whole(view, login(view, problem));
    }
    let (heading, detail) = match problem.status {
        StatusCode::NOT_FOUND => ("There is no such page", "Nothing is at this address."),
        _ => (problem.title, problem.detail.as_str()),
    };
    let mut main =
        Html::of("<h1 class=\"first-up\">{}</h1>\n<p class=\"lead first-up\">{}</p>\n", &[&heading, &detail]);
    if problem.status == StatusCode::UNPROCESSABLE_ENTITY && !problem.nearest.is_empty() {
        main.put("<p>Did you mean one of these?</p>\n<ul class=\"names\">\n", &[]);
        for name in &problem.nearest {
            main.put("<li><a href=\"{}\">{}</a></li>\n", &[&crate::html::url("search", &[("q", name)]), &Name(name)]);
        }
        main.put("</ul>\n", &[]);
    } else if let Some(remedy) = problem.remedy.as_ref().filter(|_| problem.status != StatusCode::NOT_FOUND) {
        main.put("<p>What to do: {}.</p>\n", &[remedy]);
    }
    main.put("<p><a href=\"./\">To the first page</a></p>\n", &[]);
    whole(view, Content::new(heading, main))
}

fn login(view: &View, problem: &Problem) -> Content {
    let wrong =
        (view.here == "login").then(|| Html::of("<p class=\"warn\" role=\"alert\">{}.</p>", &[&problem.detail]));
    let main = Html::of(
        "<h1 class=\"first-up\">Token</h1>\n{}<p>This server answers only with its token. Whoever started it has it.</p>\n\
         <form class=\"fields\" method=\"post\" action=\"login\"><input type=\"hidden\" name=\"to\" value=\"{}\">\
         <label>Token <input name=\"token\" type=\"password\" required autocomplete=\"current-password\"></label>\
         <button>Continue</button></form>\n",
        &[&wrong, &Value(&back(Some(&view.here)))],
    );
    Content::new("Token", main)
}

/// An address to go back to: a page of ours, or the first one.
pub fn back(to: Option<&str>) -> String {
    let to = to.unwrap_or_default();
    let page = to.split(['?', '#']).next().unwrap_or_default();
    let is_page =
        PAGES.iter().any(|known| !known.writes() && !page.is_empty() && known.path.strip_prefix('/') == Some(page));
    let is_plain = to.bytes().all(|byte| byte.is_ascii_graphic());
    if is_page && is_plain && to.len() < 8000 { to.to_string() } else { "./".into() }
}

/// Who asks, as a cookie says.
pub fn reviewer(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get(header::COOKIE)?.to_str().ok()?;
    let value = cookies.split(';').find_map(|pair| pair.trim().strip_prefix("ruge_reviewer="))?;
    let pair = format!("n={value}");
    let (_, name) = form_urlencoded::parse(pair.as_bytes()).next()?;
    Some(name.trim().to_string()).filter(|name| !name.is_empty() && name.len() < 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_elsewhere() {
        for to in [
            "//evil.example",
            "https://evil.example",
            "/entity",
            "javascript:alert(1)",
            "decide",
            "entity\r\nx: y",
            "",
            "login",
        ] {
            assert_eq!(back(Some(to)), "./", "{to}");
        }
        assert_eq!(back(Some("entity?name=a%2Fb")), "entity?name=a%2Fb");
    }

    #[test]
    fn all_addresses_stand_at_one_level() {
        assert!(PAGES.iter().all(|page| page.path.matches('/').count() == 1));
    }
}
