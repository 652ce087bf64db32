//! The page from the outside: it is complete, loads nothing, and no user string becomes markup.

mod sample;

use proptest::prelude::*;
use ruge_report::*;
use sample::{EVIL, LONG, report};

/// The one script of a page, which its policy knows.
const SCRIPT: &str = concat!("<script>", include_str!("../src/proposals.js"), "</script>");

const SECTIONS: [&str; 13] = [
    "summary",
    "data",
    "rules",
    "training",
    "results",
    "relations",
    "calibration",
    "consistency",
    "evidence",
    "proposals",
    "predictions",
    "clean-up",
    "repeat",
];
const PLOTS: [&str; 6] =
    ["plot-confidence", "plot-curves", "plot-loss", "plot-relations", "plot-calibration", "plot-truths"];

/// A page without the script that is ours.
fn unscripted(page: &str) -> String {
    assert_eq!(page.matches(SCRIPT).count(), 1, "our script, once");
    page.replacen(SCRIPT, "", 1)
}

#[test]
fn every_section_and_plot_is_there() {
    let page = render(&report());
    // For manual inspection: the page tested in this file.
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/sample-report.html"), &page).unwrap();
    for id in SECTIONS {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "no section {id}");
        assert!(page.contains(&format!("href=\"#{id}\"")), "no way to {id}");
    }
    for id in PLOTS {
        assert!(page.contains(&format!("<figure id=\"{id}\"")), "no plot {id}");
    }
    assert_eq!(page.matches("class=\"plot\"").count(), 2 * PLOTS.len(), "each plot for a desk and a phone");
    assert_eq!(page.matches("class=\"evidence\"").count(), 3, "one per prediction with a rule");
    for figure in [
        "<b>0.812</b>",
        "MRR of the best model",
        "+0.122",
        "0.768",
        "already the tail of 1 fact",
        "the score that ranks it among tails",
        "+5.00",
        "2 smaller parts",
        "311 facts that are not listed",
        "published: RUGE (Guo et al. 2018)",
        "± 0.004",
        "512 test triples",
        "0.962 (without rules 0.413)",
    ] {
        assert!(page.contains(figure), "no {figure}");
    }
}

#[test]
fn the_page_loads_nothing_and_runs_nothing() {
    let page = unscripted(&render(&report()));
    let without_namespaces = page.replace("http://www.w3.org/2000/svg", "");
    for word in ["<script", "src=", "@import", "url(\"", "url(h", "<img", "<iframe", "onload"] {
        assert!(!without_namespaces.contains(word), "{word} in the page");
    }
    // A name may be an address; nothing leads to it.
    for (at, _) in page.match_indices("href=\"") {
        assert!(page[at..].starts_with("href=\"#") || page[at..].starts_with("href=\"data:,\""), "{:.60}", &page[at..]);
    }
    let plain = render(&Report { proposals: Part::LeftOut, ..report() });
    assert!(!plain.contains("<script") && !plain.contains("script-src"), "a page without a script allows none");
}

/// Without a script the page is a plain long table with every fact and every reason.
#[test]
fn proposed_facts_need_no_script() {
    let page = unscripted(&render(&report()));
    assert_eq!(page.matches("<tr data-fact=").count(), 311);
    assert!(
        page.contains("data-part=\"controls\" role=\"search\" aria-label=\"Proposed facts\" hidden>"),
        "no dead controls"
    );
    assert!(!page.contains("<th scope=\"col\" data-sort=\"truth\" class=\"n\"><button"), "no dead buttons");
    assert!(page.contains("the last place (place 299)") && page.contains("Against it: already listed: "));
}

#[test]
fn names_with_markup_arrive_as_text() {
    let page = unscripted(&render(&report()));
    assert!(!page.contains(EVIL));
    assert!(page.contains("&lt;script&gt;alert("));
    assert!(page.contains(LONG), "a long name is there in full, if only for those who hover");
    assert!(page.contains("costs $x in $"), "a dollar sign is no formula");
    let mut evil = report();
    evil.title = "</title></style><script>1</script>".into();
    assert!(!unscripted(&render(&evil)).contains("<script"));
}

/// Any string of a report may be a user's name: each in turn, and all together, are made hostile.
#[test]
fn no_string_of_a_report_becomes_markup_or_turns_text_around() {
    const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"onload='x' \u{202e}\u{200b}\u{1b}[31m\u{9b}-->]]>";
    fn places(value: &serde_json::Value, at: &str, found: &mut Vec<String>) {
        match value {
            serde_json::Value::String(_) => found.push(at.to_string()),
            serde_json::Value::Array(list) => {
                list.iter().enumerate().for_each(|(index, value)| places(value, &format!("{at}/{index}"), found));
            }
            serde_json::Value::Object(map) => {
                map.iter().for_each(|(key, value)| places(value, &format!("{at}/{key}"), found));
            }
            _ => {}
        }
    }
    let clean = |page: &str, what: &str| {
        for word in ["<img", "<script", "</script", "\"onload", "onload='", "\u{202e}", "\u{200b}", "\u{1b}", "\u{9b}"]
        {
            assert!(!page.contains(word), "{word:?} in the page, from {what}");
        }
    };
    let mut few = sample::proposed();
    few.facts.truncate(4);
    let whole = serde_json::to_value(Report { proposals: few.into(), ..report() }).unwrap();
    let (mut all, mut found) = (whole.clone(), Vec::new());
    places(&whole, "", &mut found);
    let mut changed = 0;
    for place in found {
        let mut one = whole.clone();
        *one.pointer_mut(&place).unwrap() = HOSTILE.into();
        // Enum variants cannot be replaced.
        let Ok(hostile) = serde_json::from_value::<Report>(one) else { continue };
        clean(&unscripted(&render(&hostile)), &place);
        *all.pointer_mut(&place).unwrap() = HOSTILE.into();
        changed += 1;
    }
    assert!(changed > 60, "only {changed} places");
    let page = unscripted(&render(&serde_json::from_value(all).unwrap()));
    clean(&page, "everywhere");
    assert!(page.contains("⟨U+202E⟩") && page.contains("⟨ESC⟩[31m"));
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/hostile-report.html"), page).unwrap();
}

#[test]
fn the_page_has_a_policy_before_anything_it_governs() {
    let page = render(&report());
    let policy = page.find("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';").unwrap();
    assert!(policy < page.find("<title>").unwrap() && policy < page.find("<style>").unwrap());
    assert!(!page.contains(" style=\""), "an attribute the policy refuses");
    assert_eq!(page.matches("<style").count(), 1, "a style the policy does not know");
}

#[test]
fn what_is_missing_says_why_and_what_is_left_out_is_not_mentioned() {
    let page = render(&Report {
        title: "half".into(),
        curves: Part::Missing("Training was <skipped>.".into()),
        ..Report::default()
    });
    assert!(page.contains("Training was &lt;skipped&gt;."));
    assert!(!page.contains("<script"));
    for id in SECTIONS.iter().filter(|id| !["summary", "training"].contains(id)) {
        assert!(!page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    let empty = render(&Report {
        data: DataAudit::default().into(),
        rules: RuleSet::default().into(),
        curves: Vec::new().into(),
        metrics: MetricsTable::default().into(),
        relations: Vec::new().into(),
        calibration: CalibrationCurve::default().into(),
        consistency: Consistency::default().into(),
        evidence: EvidenceUse::default().into(),
        proposals: Proposed::default().into(),
        predictions: Vec::new().into(),
        clean_up: CleanUp::default().into(),
        repeat: Repeat::default().into(),
        ..Report::default()
    });
    assert!(!empty.contains("<svg") && !empty.contains("NaN"), "nothing to plot, nothing plotted");
}

#[test]
fn a_report_survives_being_stored() {
    let report = report();
    let json = serde_json::to_string(&report).unwrap();
    // Numbers may differ in their last digit; the page may not.
    assert_eq!(render(&serde_json::from_str::<Report>(&json).unwrap()), render(&report));
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(0.0), Just(1.0), -1e12..1e12f64, 0.0..1.0f64]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any numbers give a page, and no plot is drawn with NaN.
    #[test]
    fn odd_numbers_and_names_do_not_break_the_page(
        values in prop::collection::vec(number(), 1..6),
        name in "\\PC{0,12}",
        counts in prop::collection::vec(0u64..u64::MAX, 0..5),
    ) {
        let mut odd = sample::report();
        odd.title = name.clone();
        let points: Vec<(u64, f64)> = values.iter().enumerate().map(|(at, value)| (at as u64, *value)).collect();
        odd.curves = vec![Curve { name: name.clone(), system: System::Other, valid_mrr: points.clone(), loss: points, best_epoch: Some(0) }].into();
        odd.relations = vec![RelationRow { relation: name.clone(), queries: 1, rules: None, combined: None, guided: Some(values[0]), unguided: Some(values[values.len() - 1]) }].into();
        let bins = values.iter().map(|&value| ReliabilityBin { predicted: value, observed: value, count: 1 }).collect();
        odd.calibration = CalibrationCurve { bins, brier: Some(values[0]), ..CalibrationCurve::default() }.into();
        let edges = (0..=counts.len()).map(|at| at as f64).collect();
        odd.rules = RuleSet { confidences: Histogram { edges, counts }, ..RuleSet::default() }.into();
        let page = render(&odd);
        prop_assert!(page.ends_with("</html>\n"));
        prop_assert!(!page.contains("NaN\"") && !page.contains("\"inf"), "a coordinate that is none");
        prop_assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }
}
