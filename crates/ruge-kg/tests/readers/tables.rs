//! Tables as people have them: headers, chosen columns, quotes, archives, several files.

use std::io::Write;

use super::*;

#[test]
fn a_known_header_tells_the_columns() {
    for (name, text, order) in [
        ("a.csv", "source,metaedge,target\nA,r,B\n", "hrt"),
        ("a.tsv", "head\ttail\trelation\nA\tB\tr\n", "htr"),
        ("a.csv", ":START_ID,:END_ID,:TYPE\nA,B,r\n", "htr"),
        ("a.csv", "\":START_ID(X)\",\"since:int\",\":END_ID(Y)\",\":TYPE\"\n\"A\",\"3\",\"B\",\"r\"\n", "h-tr"),
        ("a.txt", "id;subject;weight;predicate;object\n1;A;0.5;r;B\n", "-h-rt"),
    ] {
        let (named, contents) =
            read(name, text, &ReadOptions::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(named, triples(&[["A", "r", "B"]]), "{text}");
        assert_eq!(contents.report.columns.unwrap().to_string(), order, "{text}");
        assert_eq!(contents.report.header.as_deref(), text.lines().next(), "{text}");
    }
}

#[test]
fn columns_are_chosen_by_name_or_number() {
    let text = "who,x,does,what\nA,1,r,B\nC,2,r,D\n";
    let options = |columns: &str| ReadOptions { columns: columns.parse().unwrap(), ..Default::default() };
    let (named, contents) = read("a.csv", text, &options("who,does,what")).unwrap();
    assert_eq!(named, triples(&[["A", "r", "B"], ["C", "r", "D"]]));
    assert!(contents.report.header.is_some());
    // Numbers say nothing about a header.
    assert_eq!(read("a.csv", text, &options("4,3,1")).unwrap().0[1], ["B", "r", "A"]);
    for (columns, says) in
        [("who,does,nix", "no column \"nix\"; the first line has who, x, does, what"), ("1,2,7", "no column 7")]
    {
        let error = read("a.csv", text, &options(columns)).unwrap_err().to_string();
        assert!(error.contains("a.csv") && error.contains(says), "{error}");
    }
}

#[test]
fn tabs_between_quotes() {
    let quoted = "\"head\"\t\"relation\"\t\"tail\"\n\"A\tB\"\t\"r\"\t\"say \"\"hi\"\"\"\n";
    assert_eq!(good("a.tsv", quoted.replace("A\tB", "A B")).0, triples(&[["A B", "r", "say \"hi\""]]));
    // Quotes of some names are theirs.
    assert_eq!(good("a.tsv", "a\tr\t\"b\"\n").0, triples(&[["a", "r", "\"b\""]]));
}

fn archive(path: &Path, members: &[(&str, &str)]) {
    let mut zip = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, text) in members {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
}

#[test]
fn archives_are_read_like_their_members() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    let load = |path: &Path| Dataset::load(path, &ReadOptions::default());
    archive(&path, &[("d/graph.csv", "a,r,b\nb,r,c\n"), ("__MACOSX/graph.csv", "junk")]);
    let (data, report) = load(&path).unwrap();
    assert_eq!((data.graph().len(), report.files[0].format), (2, Format::Csv(b',')));
    archive(&path, &[("d/train.tsv", "a\tr\tb\n"), ("d/test.tsv", "b\tr\ta\n"), ("d/README.txt", "hello")]);
    let (data, report) = load(&path).unwrap();
    assert_eq!((data.train().len(), data.test().len(), report.split_here), (1, 1, false));
    archive(&path, &[("one.tsv", "a\tr\tb\n"), ("two.nt", "<a:a> <a:r> <a:b> .\n"), ("LICENSE.txt", "no triples")]);
    let (data, report) = load(&path).unwrap();
    assert_eq!((data.graph().len(), report.files.len(), report.split_here), (2, 2, true));
    assert_eq!(load(&path.join("two.nt")).unwrap().0.graph().len(), 1, "a member by its path");
    let error = load(&path.join("three.nt")).unwrap_err().to_string();
    assert!(error.contains("no \"three.nt\""), "{error}");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = load(&path).unwrap_err().to_string();
    assert!(error.contains("a.zip") && error.contains("zip"), "{error}");
}

#[test]
fn several_files_are_one_graph() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let edges = at("edges.csv", ":START_ID,:END_ID,:TYPE\n1,2,KNOWS\n2,3,KNOWS\n2,3,KNOWS\n");
    let more = at("more.tsv", "3\tLIKES\t1\n2\tKNOWS\t3\n");
    let nodes = at("nodes.csv", "personId:ID,name,:LABEL\n1,Ann,Person\n2,Bob,Person\n");
    let list = [nodes, edges.clone(), more.clone()].join(",");
    let (data, report) = Dataset::load(Path::new(&list), &ReadOptions::default()).unwrap();
    assert_eq!((data.graph().len(), report.read, report.duplicates[0].count), (3, [5, 0, 0], 2));
    let places: Vec<(String, u64)> =
        report.duplicates[0].first.iter().map(|(path, line)| (path.display().to_string(), *line)).collect();
    assert_eq!(places, [(edges.clone(), 4), (more, 2)]);
    let ann = data.names().entities.id("1").unwrap();
    assert_eq!((data.labels().entity(ann), data.labels().types(ann).next()), (Some("Ann"), Some("Person")));
    let missing = Dataset::load(Path::new(&format!("{edges},nix.csv")), &ReadOptions::default()).unwrap_err();
    assert!(missing.to_string().starts_with("nix.csv: cannot open"), "{missing}");
}

/// A Parquet file of text columns.
#[cfg(feature = "parquet")]
fn parquet_file(path: &Path, columns: &[(&str, &[&str])]) {
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::writer::SerializedFileWriter;

    let fields: String = columns.iter().map(|(name, _)| format!("required binary {name} (UTF8);")).collect();
    let schema = parquet::schema::parser::parse_message_type(&format!("message table {{ {fields} }}")).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema.into(), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (_, cells) in columns {
        let mut column = group.next_column().unwrap().unwrap();
        let cells: Vec<ByteArray> = cells.iter().map(|cell| ByteArray::from(*cell)).collect();
        column.typed::<ByteArrayType>().write_batch(&cells, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
#[cfg(feature = "parquet")]
fn parquet_by_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    parquet_file(
        &path,
        &[("weight", &["1", "2"]), ("target", &["b", "c"]), ("source", &["a", "b"]), ("metaedge", &["r", "s"])],
    );
    let bytes = std::fs::read(&path).unwrap();
    let of = |options: &ReadOptions| {
        let mut names = Names::default();
        let contents = read_file(&path, &mut names, options).unwrap();
        words(&names, &contents).into_iter().map(|(_, words)| words).collect::<Named>()
    };
    assert_eq!(of(&ReadOptions::default()), triples(&[["a", "r", "b"], ["b", "s", "c"]]));
    let columns = "target,weight,source".parse().unwrap();
    assert_eq!(of(&ReadOptions { columns, ..Default::default() }), triples(&[["b", "1", "a"], ["c", "2", "b"]]));
    assert_eq!(good("no name", &bytes).0.len(), 2, "by content");
    let columns = "target,nix,source".parse().unwrap();
    let error = read("a.pq", &bytes, &ReadOptions { columns, ..Default::default() }).unwrap_err().to_string();
    assert!(error.contains("no column \"nix\""), "{error}");
    // Damage anywhere is an error that names the file, or goes unnoticed in what is not read; it is no panic.
    for at in 4..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        if let Err(error) = read("a.pq", &damaged, &ReadOptions::default()) {
            assert!(error.to_string().contains("a.pq"), "{error}");
        }
    }
    let error = read("a.pq", &bytes[..bytes.len() / 2], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("a.pq") && error.contains("Parquet"), "{error}");
}
