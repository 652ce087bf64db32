//! The API, as the table of endpoints says it.

use axum::http::Method;
use ruge::Cancel;

use crate::ask::Ask;
use crate::html::Html;
use crate::problem::Problem;
use crate::table::{ROUTES, Route, Run};

use super::{Content, View};

/// All endpoints, each with a line to type and a form to try it.
pub fn show(view: &View, _: &Ask, _: &Cancel) -> Result<Content, Problem> {
    let mut main = Html::of(
        "<h1>API</h1>\n<p class=\"lead\">Everything on these pages is there for programs too: JSON over HTTP, the values that \
         <code>ruge … --json</code> prints. <a href=\"openapi.json\">openapi.json</a> describes it for tools.</p>\n\
         <p>What is wrong is told as <code>application/problem+json</code> with <code>detail</code> and <code>remedy</code>. Reads carry an \
         <code>ETag</code>, which changes with the model, added facts and decisions.</p>\n",
        &[],
    );
    for route in ROUTES.iter().filter(|route| !(view.app.read_only && route.writes)) {
        main.put("{}", &[&endpoint(route)]);
    }
    Ok(Content::new("API", main))
}

fn endpoint(route: &Route) -> Html {
    let mut html = Html::of(
        "<section class=\"endpoint\">\n<h2><span class=\"method\">{}</span> <code>{}</code></h2>\n<p>{}.</p>\n",
        &[&route.method.as_str(), &route.path, &route.what],
    );
    let relative = route.path.trim_start_matches('/');
    let is_get = route.method == Method::GET;
    if !route.params.is_empty() {
        html.put("<p class=\"params\">", &[]);
        for param in route.params {
            let name = param.trim_end_matches('!');
            let needed = param.ends_with('!').then(|| Html::of("<span class=\"note\"> needed</span>", &[]));
            html.put("<span><code>{}</code>{}</span> ", &[&name, &needed]);
        }
        html.put("</p>\n", &[]);
    }
    html.put("<pre tabindex=\"0\">{}</pre>\n", &[&line(route)]);
    if is_get && route.params.is_empty() {
        html.put("<p><a href=\"{}\">Try it</a></p>\n", &[&relative]);
    } else if is_get {
        html.put("<details><summary>Try it</summary><form class=\"fields\" action=\"{}\">", &[&relative]);
        for param in route.params {
            let name = param.trim_end_matches('!');
            let complete = match name {
                "head" | "tail" | "name" if route.path.ends_with("relation") => "relation",
                "head" if route.path.ends_with("rules") => "relation",
                "head" | "tail" | "name" => "entity",
                "relation" | "body" => "relation",
                _ => "",
            };
            html.put(
                "<label>{} <input name=\"{}\" data-complete=\"{}\" autocomplete=\"off\"{}></label>",
                &[
                    &name,
                    &name,
                    &complete,
                    &if param.ends_with('!') { Html::of(" required", &[]) } else { Html::new() },
                ],
            );
        }
        html.put("<button>Send</button></form></details>\n", &[]);
    }
    html.put("</section>\n", &[]);
    html
}

/// What to type for it.
fn line(route: &Route) -> String {
    let example = |name: &str| match name {
        "head" | "name" | "tail" => "\"…\"",
        "facts" | "triples" => "[{\"head\":\"…\",\"relation\":\"…\",\"tail\":\"…\"}]",
        "decision" => "\"accept\"",
        _ => "\"…\"",
    };
    let needed: Vec<&str> = route.params.iter().filter_map(|name| name.strip_suffix('!')).collect();
    let address = format!("http://127.0.0.1:7997{}", route.path);
    if route.method == Method::GET {
        let query: Vec<String> = needed.iter().map(|name| format!("{name}=…")).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        return format!("curl '{address}{query}'");
    }
    if matches!(route.run, Run::Batch) {
        return format!("curl -T questions.tsv -X POST -H 'Content-Type: application/x-ndjson' '{address}'");
    }
    let fields: Vec<String> = needed.iter().map(|name| format!("\"{name}\":{}", example(name))).collect();
    let method = if route.method == Method::POST { String::new() } else { format!(" -X {}", route.method) };
    format!("curl{method} -H 'Content-Type: application/json' -d '{{{}}}' '{address}'", fields.join(","))
}
