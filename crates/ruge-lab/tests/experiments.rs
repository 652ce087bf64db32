//! Every cell of every table of the project means something that can run.

use std::path::Path;

use ruge::DeviceName;
use ruge_lab::reproduce::{PaperTable, Record, TableName};

#[test]
fn every_cell_resolves_to_specs_that_can_run() {
    let experiments = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments"));
    for name in TableName::ALL {
        let table = PaperTable::read(experiments, name).unwrap();
        for cell in &table.cells {
            for &seed in &cell.seeds {
                for device in [DeviceName::Cpu, DeviceName::Cuda] {
                    if cell.device.is_some_and(|only| only != device) {
                        continue;
                    }
                    let points = cell.points(experiments, Path::new("data"), seed, device);
                    let quick_on_card = cell.quick && device == DeviceName::Cuda;
                    assert!(points.is_ok() || quick_on_card, "{}: {}", cell.name, points.unwrap_err());
                }
                Record::read(&cell.record_path(&experiments.join("records"), seed)).unwrap();
            }
        }
    }
}

#[test]
fn a_stranger_needs_no_rule_file_for_fb15k() {
    let experiments = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments"));
    for name in TableName::ALL {
        for cell in PaperTable::read(experiments, name).unwrap().cells.iter().filter(|cell| cell.data == "fb15k") {
            let points = cell.points(experiments, Path::new("data"), cell.seeds[0], DeviceName::Cpu).unwrap();
            assert!(points.iter().all(|point| point.spec.rules.file.is_none()), "{}", cell.name);
        }
    }
}
