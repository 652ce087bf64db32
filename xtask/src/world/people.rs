//! From tables to facts: languages, money, organisations, companies, events.
//!
//! Most of these facts follow from no other, so only a model of the whole graph can predict them.

use super::graph::{Graph, Kind};
use super::table::Tables;

pub const LEFT: &str = "Left-hand traffic";
pub const RIGHT: &str = "Right-hand traffic";

/// Declares every name of these tables.
pub fn declare(graph: &mut Graph, tables: &Tables) {
    for side in [LEFT, RIGHT] {
        graph.declare(side, Kind::Sort, "sides of the road");
    }
    for row in tables.rows("families") {
        graph.declare(row.cell("family"), Kind::Family, &row.place());
        graph.declare_new(row.cell("branch"), Kind::Family, &row.place());
    }
    for row in tables.rows("languages") {
        let place = row.place();
        graph.declare_new(row.cell("name"), Kind::Language, &place);
        for family in row.list("family") {
            graph.declare(family, Kind::Family, &place);
        }
        for script in row.list("scripts") {
            graph.declare(script, Kind::Script, &place);
        }
    }
    for row in tables.rows("currencies") {
        graph.declare_new(row.cell("currency"), Kind::Currency, &row.place());
        graph.declare_new(row.cell("issuer"), Kind::Organisation, &row.place());
    }
    for row in tables.rows("organisations") {
        graph.declare_new(row.cell("name"), Kind::Organisation, &row.place());
    }
    for row in tables.rows("companies") {
        graph.declare_new(row.cell("name"), Kind::Company, &row.place());
        graph.declare(row.cell("industry"), Kind::Sort, &row.place());
    }
    for row in tables.rows("events") {
        graph.declare_new(row.cell("event"), Kind::Event, &row.place());
    }
}

/// Adds the facts of these tables.
pub fn expand(graph: &mut Graph, tables: &Tables) {
    languages(graph, tables);
    currencies(graph, tables);
    organisations(graph, tables);
    for row in tables.rows("companies") {
        let (name, place) = (row.cell("name"), row.place());
        graph.state(name, "in_industry", row.cell("industry"), &place);
        seat(graph, name, row.list("city"), &place);
    }
    for row in tables.rows("twins") {
        let (city, place) = (row.cell("city"), row.place());
        graph.need(city, &[Kind::City], &place);
        for other in row.list("sister_cities") {
            graph.need(other, &[Kind::City], &place);
            graph.state(city, "twinned_with", other, &place);
            graph.state(other, "twinned_with", city, &place);
        }
    }
    for row in tables.rows("events") {
        let place = row.place();
        for host in row.list("hosts") {
            graph.need(host, &[Kind::City, Kind::Country, Kind::Division], &place);
            graph.state(host, "hosted", row.cell("event"), &place);
        }
    }
}

fn languages(graph: &mut Graph, tables: &Tables) {
    for row in tables.rows("families") {
        graph.state(row.cell("branch"), "part_of", row.cell("family"), &row.place());
    }
    for row in tables.rows("languages") {
        let (name, place) = (row.cell("name"), row.place());
        let (branch, family) = (row.cell("branch"), row.cell("family"));
        if branch.is_empty() == family.is_empty() {
            graph.problem(&place, format!("`{name}` needs a branch or a family"));
        }
        if !branch.is_empty() {
            graph.need(branch, &[Kind::Family], &place);
            graph.state(name, "language_family", branch, &place);
            for family in graph.tails(branch, "part_of") {
                graph.derive(name, "language_family", &family);
            }
        }
        if !family.is_empty() {
            graph.state(name, "language_family", family, &place);
        }
        for script in row.list("scripts") {
            graph.state(name, "written_in", script, &place);
        }
        for country in row.list("also_spoken_in") {
            graph.need(country, &[Kind::Country], &place);
            graph.state(name, "spoken_in", country, &place);
        }
    }
}

fn currencies(graph: &mut Graph, tables: &Tables) {
    for row in tables.rows("currencies") {
        let (currency, issuer, place) = (row.cell("currency"), row.cell("issuer"), row.place());
        graph.state(currency, "issued_by", issuer, &place);
        seat(graph, issuer, row.list("city"), &place);
    }
}

fn organisations(graph: &mut Graph, tables: &Tables) {
    for row in tables.rows("organisations") {
        let (name, place) = (row.cell("name"), row.place());
        seat(graph, name, row.list("headquarters"), &place);
        for founder in row.list("founders") {
            graph.need(founder, &[Kind::Country, Kind::PastState], &place);
            graph.state(name, "has_founding_member", founder, &place);
        }
        for member in row.list("members") {
            graph.need(member, &[Kind::Country], &place);
            graph.state(member, "member_of", name, &place);
        }
    }
}

/// Locates an organisation in its cities and their country.
fn seat<'a>(graph: &mut Graph, name: &str, cities: impl Iterator<Item = &'a str>, place: &str) {
    for city in cities {
        graph.need(city, &[Kind::City], place);
        graph.state(name, "headquartered_in", city, place);
        for country in graph.tails(city, "located_in") {
            if graph.kind(&country) == Some(Kind::Country) {
                graph.derive(name, "based_in", &country);
            }
        }
    }
}
