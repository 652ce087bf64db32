//! What is said about relation paths: those found, and those left out.

use ruge_embed::PathReport;

use crate::text::grouped;

/// A line about the paths, and one about what the cut-off on paths of three steps drops.
pub fn path_words(report: &PathReport) -> Vec<String> {
    let number = |count: u64| grouped(count as usize);
    let [one, two, three] = report.sequences.map(number);
    let mut lines = vec![format!(
        "relation paths that predict a relation: {one} of one step, {two} of two, {three} of three; {} features of {} pairs, \
         {} dropped for their small share",
        number(report.features),
        number(report.pairs),
        number(report.features_dropped),
    )];
    if let Some(cut) = &report.three_steps {
        lines.push(format!(
            "the cut-off at {} extends {} paths of two steps and drops {} ({} instances); of three steps it keeps {} \
             ({} instances) and drops {} that link something ({} instances in all)",
            cut.cut_off,
            number(cut.prefixes_extended),
            number(cut.prefixes_dropped),
            number(cut.prefix_instances_dropped),
            number(cut.sequences_kept),
            number(cut.instances_kept),
            number(cut.sequences_dropped),
            number(cut.instances_dropped),
        ));
    }
    lines
}
