//! From tables to facts: countries, divisions and cities.
//!
//! Only this module and its two neighbours decide which facts are added to those stated in the tables: both directions
//! of symmetric relations (`borders`, `twinned_with`), one true inverse pair (`has_capital`, `capital_of`), and
//! compositions that hold as facts (a city is in the continent of its country unless the table says otherwise).
//! Membership deliberately has no full inverse: it would turn one fact in nine into a lookup.

use anyhow::Result;

use super::graph::{Graph, Kind};
use super::table::{Row, Tables};
use super::{nature, people};

/// Expands the tables to the finished graph, or lists all errors.
pub fn expand(tables: &Tables) -> Result<Graph> {
    let mut graph = Graph::default();
    declare(&mut graph, tables);
    people::declare(&mut graph, tables);
    nature::declare(&mut graph, tables);

    regions(&mut graph, tables);
    for row in tables.rows("countries") {
        country(&mut graph, row);
    }
    for row in tables.rows("divisions") {
        division(&mut graph, row);
    }
    for row in tables.rows("cities") {
        cities(&mut graph, row);
    }
    borders(&mut graph, tables);
    people::expand(&mut graph, tables);
    nature::expand(&mut graph, tables);
    graph.finish()
}

/// The name of a division's seat, and whether it is inside the division.
///
/// A leading `!` marks a seat outside, as Chandigarh is for Haryana.
pub fn seat(name: &str) -> (&str, bool) {
    match name.strip_prefix('!') {
        Some(outside) => (outside, false),
        None => (name, true),
    }
}

fn declare(graph: &mut Graph, tables: &Tables) {
    for row in tables.rows("regions") {
        graph.declare(row.cell("continent"), Kind::Continent, &row.place());
    }
    for row in tables.rows("regions") {
        // South America is both a region and a continent, under one name.
        if row.cell("region") != row.cell("continent") {
            graph.declare_new(row.cell("region"), Kind::Region, &row.place());
        }
    }
    for row in tables.rows("countries") {
        graph.declare_new(row.cell("name"), Kind::Country, &row.place());
    }
    for row in tables.rows("countries") {
        for ruler in row.list("independent_from") {
            if graph.kind(ruler).is_none() {
                graph.declare(ruler, Kind::PastState, &row.place());
            }
        }
        for capital in row.list("capitals") {
            graph.declare_new(capital, Kind::City, &row.place());
        }
    }
    for row in tables.rows("divisions") {
        graph.declare_new(row.cell("name"), Kind::Division, &row.place());
        for capital in row.list("capital") {
            graph.declare(seat(capital).0, Kind::City, &row.place());
        }
    }
    for row in tables.rows("cities") {
        for city in row.list("cities") {
            graph.declare(city, Kind::City, &row.place());
        }
    }
}

fn regions(graph: &mut Graph, tables: &Tables) {
    for row in tables.rows("regions") {
        if row.cell("region") != row.cell("continent") {
            let place = row.place();
            graph.state(row.cell("region"), "part_of", row.cell("continent"), &place);
        }
    }
}

fn country(graph: &mut Graph, row: &Row) {
    let (name, place) = (row.cell("name"), row.place());
    let region = row.cell("region");
    graph.need(region, &[Kind::Region, Kind::Continent], &place);
    graph.state(name, "in_region", region, &place);
    let continent = match graph.kind(region) {
        Some(Kind::Continent) => region.to_owned(),
        _ => graph.tails(region, "part_of").into_iter().next().unwrap_or_default(),
    };
    graph.derive(name, "in_continent", &continent);

    for capital in row.list("capitals") {
        graph.state(name, "has_capital", capital, &place);
        graph.derive(capital, "capital_of", name);
        settle(graph, capital, name, None, &[], &place);
    }
    for language in row.list("languages") {
        graph.need(language, &[Kind::Language], &place);
        graph.state(name, "official_language", language, &place);
        graph.derive(language, "spoken_in", name);
    }
    for currency in row.list("currencies") {
        graph.declare(currency, Kind::Currency, &place);
        graph.state(name, "uses_currency", currency, &place);
    }
    match row.cell("drives") {
        "left" => graph.state(name, "drives_on", people::LEFT, &place),
        "right" => graph.state(name, "drives_on", people::RIGHT, &place),
        other => graph.problem(&place, format!("`{other}` is no side of the road")),
    }
    for ruler in row.list("independent_from") {
        graph.need(ruler, &[Kind::Country, Kind::PastState], &place);
        graph.state(name, "independent_from", ruler, &place);
    }
    for water in row.list("coasts") {
        graph.need(water, &[Kind::Water], &place);
        graph.state(name, "has_coast_on", water, &place);
    }
}

fn division(graph: &mut Graph, row: &Row) {
    let (name, country, place) = (row.cell("name"), row.cell("country"), row.place());
    graph.need(country, &[Kind::Country], &place);
    graph.state(name, "division_of", country, &place);
    let continents: Vec<&str> = row.list("continent").collect();
    for capital in row.list("capital") {
        let (capital, inside) = seat(capital);
        graph.state(name, "has_capital", capital, &place);
        graph.derive(capital, "capital_of", name);
        let inside = inside.then_some(name);
        settle(graph, capital, country, inside, &continents, &place);
    }
}

fn cities(graph: &mut Graph, row: &Row) {
    let (country, place) = (row.cell("country"), row.place());
    graph.need(country, &[Kind::Country], &place);
    let division = Some(row.cell("division")).filter(|name| !name.is_empty());
    if let Some(division) = division {
        graph.need(division, &[Kind::Division], &place);
        if graph.tails(division, "division_of") != [country] {
            graph.problem(&place, format!("`{division}` is not in {country}"));
        }
    }
    let continents: Vec<&str> = row.list("continent").collect();
    for city in row.list("cities") {
        let known = graph.tails(city, "located_in");
        if known.iter().any(|place| Some(place.as_str()) == division) || (division.is_none() && !known.is_empty()) {
            graph.problem(&place, format!("`{city}` was placed before"));
        }
        settle(graph, city, country, division, &continents, &place);
    }
}

/// Puts a city into its country, division and continent.
fn settle(graph: &mut Graph, city: &str, country: &str, division: Option<&str>, continents: &[&str], place: &str) {
    for other in graph.tails(city, "located_in") {
        if graph.kind(&other) == Some(Kind::Country) && other != country {
            graph.problem(place, format!("`{city}` is in {other} and in {country}"));
        }
    }
    graph.derive(city, "located_in", country);
    if let Some(division) = division {
        graph.derive(city, "located_in", division);
    }
    if continents.is_empty() {
        if graph.tails(city, "in_continent").is_empty() {
            for continent in graph.tails(country, "in_continent") {
                graph.derive(city, "in_continent", &continent);
            }
        }
    } else {
        for continent in continents {
            graph.need(continent, &[Kind::Continent], place);
            graph.derive(city, "in_continent", continent);
        }
    }
}

fn borders(graph: &mut Graph, tables: &Tables) {
    for row in tables.rows("borders") {
        let (name, place) = (row.cell("name"), row.place());
        graph.need(name, &[Kind::Country, Kind::Division], &place);
        for other in row.list("neighbours") {
            if graph.kind(other) != graph.kind(name) {
                graph.problem(&place, format!("`{name}` and `{other}` are not of one kind"));
            }
            graph.state(name, "borders", other, &place);
            graph.state(other, "borders", name, &place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two small countries that pass every check.
    fn tables() -> Tables {
        let mut tables = Tables::default();
        for (name, text) in [
            ("regions", "region\tcontinent\nWestern Europe\tEurope\nSouth America\tSouth America\n"),
            ("families", "branch\tfamily\nRomance\tIndo-European\n"),
            ("languages", "name\tbranch\tfamily\tscripts\talso_spoken_in\nFrench\tRomance\t\t\t\n"),
            (
                "countries",
                "name\tcode\tregion\tcapitals\tlanguages\tcurrencies\tdrives\tindependent_from\tcoasts\n\
                 France\tFRA\tWestern Europe\tParis\tFrench\tEuro\tright\t\t\n\
                 Monaco\tMCO\tWestern Europe\tMonaco-Ville\tFrench\tEuro\tright\tFrance\t\n",
            ),
            ("borders", "name\tneighbours\nFrance\tMonaco\n"),
            (
                "divisions",
                "name\tcountry\tcapital\tcontinent\n\
                 Guiana\tFrance\tCayenne\tSouth America\nNowhere\tFrance\t!Paris\t\n",
            ),
            ("cities", "country\tdivision\tcities\tcontinent\nFrance\tGuiana\tKourou\tSouth America\n"),
        ] {
            tables.add(name, text).unwrap();
        }
        tables
    }

    #[test]
    fn inverses_symmetry_and_compositions_are_written_out() {
        let text = expand(&tables()).unwrap().to_tsv();
        for fact in [
            "France\tborders\tMonaco",
            "Monaco\tborders\tFrance",
            "France\thas_capital\tParis",
            "Paris\tcapital_of\tFrance",
            "Paris\tin_continent\tEurope",
            "Paris\tcapital_of\tNowhere",
            "Cayenne\tlocated_in\tGuiana",
            "Cayenne\tlocated_in\tFrance",
            "Cayenne\tin_continent\tSouth America",
            "French\tspoken_in\tMonaco",
            "French\tlanguage_family\tIndo-European",
        ] {
            assert!(text.lines().any(|line| line == fact), "{fact} not in\n{text}");
        }
        assert!(!text.contains("Paris\tlocated_in\tNowhere"));
        assert!(!text.contains("Cayenne\tin_continent\tEurope"));
    }

    #[test]
    fn a_border_stated_from_both_sides_is_a_problem() {
        let mut tables = tables();
        tables.add("borders", "name\tneighbours\nFrance\tMonaco\nMonaco\tFrance\n").unwrap();
        let error = expand(&tables).unwrap_err().to_string();
        assert!(error.contains("borders.tsv:3"), "{error}");
    }

    #[test]
    fn unknown_names_and_double_places_are_problems() {
        let mut tables = tables();
        tables
            .add(
                "cities",
                "country\tdivision\tcities\tcontinent\n\
                 Atlantis\t\tPoseidonis\t\nMonaco\t\tParis\t\nMonaco\tGuiana\tMonte Carlo\t\n",
            )
            .unwrap();
        let error = expand(&tables).unwrap_err().to_string();
        for what in ["`Atlantis` is unknown", "in France and in Monaco", "not in Monaco"] {
            assert!(error.contains(what), "{what} not in {error}");
        }
    }
}
