//! Compares the countries: names, capitals, regions, languages, currencies, borders, coasts, sides of the road,
//! continents and memberships.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::table::{Row, Tables};
use super::{Check, lines};

/// Compares everything that the sources say about whole countries.
pub fn compare(check: &mut Check, tables: &Tables, sources: &Path) -> Result<()> {
    let packages = sources.join("node_modules");
    countries(check, tables, &packages.join("world-countries/countries.json"))?;
    sides(check, tables, &packages.join("world-countries-capitals/data/data.json"))?;
    continents(check, tables, &sources.join("continents.tsv"))?;
    members(check, tables, &sources.join("members.tsv"))
}

fn countries(check: &mut Check, tables: &Tables, path: &Path) -> Result<()> {
    let list = json(path)?;
    let by_code: BTreeMap<&str, &Value> =
        list.iter().filter_map(|country| Some((country["cca3"].as_str()?, country))).collect();
    let names: BTreeMap<&str, &str> =
        tables.rows("countries").iter().map(|row| (row.cell("code"), row.cell("name"))).collect();
    let mut neighbours: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for row in tables.rows("borders") {
        for other in row.list("neighbours") {
            let name = row.cell("name");
            neighbours.entry(name).or_default().insert(other.to_owned());
            neighbours.entry(other).or_default().insert(name.to_owned());
        }
    }
    for row in tables.rows("countries") {
        let (code, name) = (row.cell("code"), row.cell("name"));
        let Some(country) = by_code.get(code) else {
            bail!("countries.json has no {code} ({name})");
        };
        let theirs = check.ours("name", &texts(&country["name"]["common"]).concat());
        check.compare("name", name, [name.to_owned()].into(), [theirs].into());
        let fields: [(&'static str, &str, Vec<String>); 4] = [
            ("capital", "capitals", texts(&country["capital"])),
            ("region", "region", texts(&country["subregion"])),
            ("language", "languages", values(&country["languages"], None)),
            ("currency", "currencies", values(&country["currencies"], Some("name"))),
        ];
        for (field, column, theirs) in fields {
            let ours = row.list(column).map(str::to_owned).collect();
            let theirs = theirs.iter().map(|item| check.ours(field, item)).collect();
            check.compare(field, name, ours, theirs);
        }
        coast(check, row, country["landlocked"] == true);
        let theirs = texts(&country["borders"])
            .iter()
            .filter_map(|code| names.get(code.as_str()))
            .map(|name| (*name).to_owned())
            .collect();
        let ours = neighbours.remove(name).unwrap_or_default();
        check.compare("borders", name, ours, theirs);
    }
    let known = by_code.iter().filter(|(_, c)| c["independent"] == true);
    for (code, country) in known {
        if !names.contains_key(code) {
            check.dispute("name", &texts(&country["name"]["common"]).concat(), "-".into());
        }
    }
    Ok(())
}

/// A text, or the texts of a list.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::String(text) if !text.is_empty() => vec![text.clone()],
        _ => Vec::new(),
    }
}

/// The values of a map, or one field of each.
fn values(value: &Value, field: Option<&str>) -> Vec<String> {
    let items = value.as_object().into_iter().flat_map(|map| map.values());
    items
        .flat_map(|item| match field {
            Some(field) => texts(&item[field]),
            None => texts(item),
        })
        .collect()
}

/// A landlocked country has no sea; any other has one. The Caspian is a lake.
fn coast(check: &mut Check, row: &Row, landlocked: bool) {
    let sea = row.list("coasts").any(|water| water != "Caspian Sea");
    let word = |landlocked: bool| if landlocked { "no sea" } else { "sea" };
    let (ours, theirs) = (word(!sea).to_owned(), word(landlocked).to_owned());
    check.compare("coast", row.cell("name"), [ours].into(), [theirs].into());
}

/// The side of the road on which people drive.
fn sides(check: &mut Check, tables: &Tables, path: &Path) -> Result<()> {
    let list = json(path)?;
    let by_code: BTreeMap<String, &Value> = list
        .iter()
        .filter_map(|country| {
            let code = country["iso"]["alpha_3"].as_str()?;
            Some((code.to_uppercase(), &country["drive_direction"]))
        })
        .collect();
    for row in tables.rows("countries") {
        match by_code.get(row.cell("code")) {
            None => check.unknown("drives"),
            Some(theirs) => {
                let ours = [row.cell("drives").to_owned()].into();
                let theirs = texts(theirs).into_iter().collect();
                check.compare("drives", row.cell("name"), ours, theirs);
            }
        }
    }
    Ok(())
}

fn continents(check: &mut Check, tables: &Tables, path: &Path) -> Result<()> {
    let regions: BTreeMap<&str, &str> =
        tables.rows("regions").iter().map(|row| (row.cell("region"), row.cell("continent"))).collect();
    let known: BTreeMap<String, String> = pairs(path)?.into_iter().collect();
    for row in tables.rows("countries") {
        match known.get(row.cell("code")) {
            None => check.unknown("continent"),
            Some(theirs) => {
                let ours = regions.get(row.cell("region")).copied().unwrap_or_default();
                let (ours, theirs) = ([ours.to_owned()].into(), [theirs.clone()].into());
                check.compare("continent", row.cell("name"), ours, theirs);
            }
        }
    }
    Ok(())
}

/// Members of the organisations that the source lists.
fn members(check: &mut Check, tables: &Tables, path: &Path) -> Result<()> {
    let names: BTreeMap<&str, &str> =
        tables.rows("countries").iter().map(|row| (row.cell("code"), row.cell("name"))).collect();
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (club, code) in pairs(path)? {
        let name = names.get(code.as_str()).copied().unwrap_or(&code);
        known.entry(club).or_default().insert(name.to_owned());
    }
    for row in tables.rows("organisations") {
        if let Some(theirs) = known.remove(row.cell("name")) {
            let ours = row.list("members").map(str::to_owned).collect();
            check.compare("member", row.cell("name"), ours, theirs);
        }
    }
    match known.into_keys().next() {
        Some(club) => bail!("{}: we have no {club}", path.display()),
        None => Ok(()),
    }
}

fn pairs(path: &Path) -> Result<Vec<(String, String)>> {
    let pair = |line: Vec<String>| {
        let [a, b] = <[String; 2]>::try_from(line).map_err(|_| anyhow::anyhow!("{}: not two cells", path.display()))?;
        Ok((a, b))
    };
    lines(path)?.into_iter().map(pair).collect()
}

fn json(path: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}
