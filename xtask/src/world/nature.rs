//! From tables to facts: waters, rivers, mountains, islands and landmarks.
//!
//! Something in several countries, such as a river or a range, has one fact per country.

use super::graph::{Graph, Kind};
use super::table::{Row, Tables};

/// Declares every name of these tables.
pub fn declare(graph: &mut Graph, tables: &Tables) {
    for (table, kind) in [
        ("waters", Kind::Water),
        ("rivers", Kind::River),
        ("ranges", Kind::Range),
        ("mountains", Kind::Mountain),
        ("islands", Kind::Island),
        ("places", Kind::Place),
    ] {
        for row in tables.rows(table) {
            graph.declare_new(row.cell("name"), kind, &row.place());
        }
    }
    for table in ["waters", "mountains", "places"] {
        for row in tables.rows(table) {
            graph.declare(row.cell("kind"), Kind::Sort, &row.place());
        }
    }
}

/// Adds the facts of these tables.
pub fn expand(graph: &mut Graph, tables: &Tables) {
    for row in tables.rows("waters") {
        let (name, place) = (row.cell("name"), row.place());
        graph.state(name, "is_a", row.cell("kind"), &place);
        for whole in row.list("part_of") {
            graph.need(whole, &[Kind::Water], &place);
            graph.state(name, "part_of", whole, &place);
        }
        in_countries(graph, row, "found_in");
    }
    for row in tables.rows("rivers") {
        river(graph, row);
    }
    for row in tables.rows("ranges") {
        in_countries(graph, row, "found_in");
    }
    for row in tables.rows("mountains") {
        mountain(graph, row);
    }
    for row in tables.rows("islands") {
        in_countries(graph, row, "found_in");
        for water in row.list("water") {
            graph.need(water, &[Kind::Water], &row.place());
            graph.state(row.cell("name"), "has_coast_on", water, &row.place());
        }
    }
    for row in tables.rows("shores") {
        let (water, place) = (row.cell("water"), row.place());
        graph.need(water, &[Kind::Water], &place);
        for city in row.list("cities") {
            graph.need(city, &[Kind::City], &place);
            graph.state(city, "has_coast_on", water, &place);
        }
    }
    for row in tables.rows("places") {
        landmark(graph, row);
    }
}

fn in_countries(graph: &mut Graph, row: &Row, relation: &'static str) {
    for country in row.list("countries") {
        graph.need(country, &[Kind::Country], &row.place());
        graph.state(row.cell("name"), relation, country, &row.place());
    }
}

fn river(graph: &mut Graph, row: &Row) {
    let (name, place) = (row.cell("name"), row.place());
    in_countries(graph, row, "flows_through");
    for water in row.list("empties_into") {
        graph.need(water, &[Kind::Water], &place);
        graph.state(name, "empties_into", water, &place);
    }
    for river in row.list("tributary_of") {
        graph.need(river, &[Kind::River], &place);
        graph.state(name, "empties_into", river, &place);
    }
    for city in row.list("cities") {
        graph.need(city, &[Kind::City], &place);
        graph.state(city, "on_river", name, &place);
        let countries = graph.tails(city, "located_in");
        let through: Vec<&str> = row.list("countries").collect();
        if !countries.iter().any(|c| through.contains(&c.as_str())) {
            graph.problem(&place, format!("{city} is in no country of the {name}"));
        }
    }
}

fn mountain(graph: &mut Graph, row: &Row) {
    let (name, place) = (row.cell("name"), row.place());
    in_countries(graph, row, "found_in");
    graph.state(name, "is_a", row.cell("kind"), &place);
    for range in row.list("range") {
        graph.need(range, &[Kind::Range], &place);
        graph.state(name, "part_of", range, &place);
    }
    for top in row.list("highest_of") {
        let kinds = [Kind::Country, Kind::Division, Kind::Range, Kind::Continent];
        graph.need(top, &kinds, &place);
        graph.state(top, "highest_point", name, &place);
        if graph.kind(top) == Some(Kind::Country) && !row.list("countries").any(|country| country == top) {
            graph.problem(&place, format!("{name} is not in {top}"));
        }
    }
}

fn landmark(graph: &mut Graph, row: &Row) {
    let (name, city, place) = (row.cell("name"), row.cell("city"), row.place());
    graph.need(city, &[Kind::City], &place);
    graph.state(name, "is_a", row.cell("kind"), &place);
    graph.state(name, "found_in", city, &place);
}

#[cfg(test)]
mod tests {
    use super::super::expand::expand;
    use super::*;

    #[test]
    fn a_city_on_a_river_must_share_a_country_with_it() {
        let mut tables = Tables::default();
        for (name, text) in [
            ("regions", "region\tcontinent\nSouth America\tSouth America\n"),
            (
                "countries",
                "name\tcode\tregion\tcapitals\tlanguages\tcurrencies\tdrives\tindependent_from\tcoasts\n\
                 Peru\tPER\tSouth America\tLima\t\t\tright\t\t\n\
                 Chile\tCHL\tSouth America\tSantiago\t\t\tright\t\t\n",
            ),
            ("rivers", "name\tcountries\tempties_into\ttributary_of\tcities\nRímac\tPeru\t\t\tLima;Santiago\n"),
        ] {
            tables.add(name, text).unwrap();
        }
        let error = expand(&tables).unwrap_err().to_string();
        assert!(error.contains("Santiago is in no country of the Rímac"), "{error}");
        assert!(error.starts_with("1 problems"), "{error}");
    }
}
