//! Compares the locations of cities and divisions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};

use super::super::expand::seat;
use super::super::table::{Row, Tables};
use super::{Check, lines};

/// Compares the country of every city and division, and the state of US cities.
pub fn compare(check: &mut Check, tables: &Tables, sources: &Path) -> Result<()> {
    cities(check, tables, &sources.join("cities.tsv"))?;
    divisions(check, tables, &sources.join("subdivisions.tsv"))
}

/// Every city whose name is known must be known in our country.
fn cities(check: &mut Check, tables: &Tables, path: &Path) -> Result<()> {
    // Folded name to the (country code, state) pairs that have such a city.
    let mut known: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
    for line in lines(path)? {
        let [name, country, state, others] = line.as_slice() else {
            bail!("{}: {} cells in a line", path.display(), line.len());
        };
        for name in others.split(',').chain([name.as_str()]) {
            let place = (country.clone(), state.clone());
            known.entry(fold(name)).or_default().insert(place);
        }
    }
    let codes = codes(tables);
    for (city, country, division) in placed(tables) {
        let Some(places) = known.get(&fold(plain(&city))) else {
            check.unknown("city");
            continue;
        };
        let code = codes.get(country.as_str()).copied().unwrap_or_default();
        let here: Vec<_> = places.iter().filter(|(c, _)| c == code).collect();
        if here.is_empty() {
            check.dispute("city", &city, format!("+{country}"));
            continue;
        }
        check.agree("city");
        let Some(division) = division.filter(|_| country == "United States") else {
            continue;
        };
        if here.iter().any(|(_, state)| state == plain(&division)) {
            check.agree("state");
        } else {
            check.dispute("state", &city, format!("+{division}"));
        }
    }
    Ok(())
}

/// The code the sources use for each of our countries.
fn codes(tables: &Tables) -> BTreeMap<&str, &str> {
    let rows = tables.rows("countries").iter();
    rows.map(|row| (row.cell("name"), row.cell("code"))).collect()
}

/// Every city with its country and, if given, its division.
fn placed(tables: &Tables) -> Vec<(String, String, Option<String>)> {
    let mut all = Vec::new();
    let mut add = |city: &str, country: &str, division: &str| {
        let division = Some(division.to_owned()).filter(|name| !name.is_empty());
        all.push((city.to_owned(), country.to_owned(), division));
    };
    for row in tables.rows("countries") {
        row.list("capitals").for_each(|city| add(city, row.cell("name"), ""));
    }
    let ours = |row: &&Row| row.cell("continent").is_empty();
    for row in tables.rows("divisions").iter().filter(ours) {
        for (city, inside) in row.list("capital").map(seat) {
            let name = if inside { row.cell("name") } else { "" };
            add(city, row.cell("country"), name);
        }
    }
    for row in tables.rows("cities") {
        row.list("cities").for_each(|city| add(city, row.cell("country"), row.cell("division")));
    }
    all
}

/// Every known division must be known to belong to our country.
fn divisions(check: &mut Check, tables: &Tables, path: &Path) -> Result<()> {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in lines(path)? {
        let [name, country] = line.as_slice() else {
            bail!("{}: {} cells in a line", path.display(), line.len());
        };
        known.entry(fold(name)).or_default().insert(country.clone());
    }
    let codes = codes(tables);
    for row in tables.rows("divisions") {
        let (name, country) = (row.cell("name"), row.cell("country"));
        let code = codes.get(country).copied().unwrap_or_default();
        match known.get(&fold(plain(name))) {
            None => check.unknown("division"),
            Some(places) if places.contains(code) => {
                check.agree("division");
            }
            Some(_) => check.dispute("division", name, format!("+{country}")),
        }
    }
    Ok(())
}

/// A name without our disambiguation in brackets.
fn plain(name: &str) -> &str {
    name.split(" (").next().unwrap_or(name)
}

/// A name normalised to the sources' loose spelling.
fn fold(name: &str) -> String {
    let accents = [
        ("áàâãäåāăą", 'a'),
        ("éèêëēęě", 'e'),
        ("íìîïīı", 'i'),
        ("óòôõöøōő", 'o'),
        ("úùûüūů", 'u'),
        ("çčć", 'c'),
        ("ñńň", 'n'),
        ("šșş", 's'),
        ("țţ", 't'),
        ("žźż", 'z'),
        ("ł", 'l'),
        ("ğ", 'g'),
        ("ý", 'y'),
    ];
    name.to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() && *c != 'ʻ' && *c != 'ʼ')
        .map(|c| {
            let found = accents.iter().find(|(from, _)| from.contains(c));
            found.map_or(c, |(_, to)| *to)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_is_forgiven_and_brackets_are_ignored() {
        assert_eq!(fold("São Tomé"), fold("Sao Tome"));
        assert_eq!(fold("Nukuʻalofa"), fold("Nuku'alofa"));
        assert_eq!(plain("Georgia (US state)"), "Georgia");
    }
}
