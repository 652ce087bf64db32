//! The search page: complete, and safe from user input.

#[path = "sample/search.rs"]
mod sample;

use ruge_report::search::{SearchPage, render_search};
use sample::{EVIL, page};

#[test]
fn it_is_whole_and_nothing_of_the_users_becomes_markup() {
    let text = render_search(&page(20));
    assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"));
    assert!(!text.contains(EVIL) && text.contains("&lt;script&gt;"));
    assert!(text.contains("demo &amp; more") && !text.contains("NaN\""), "a coordinate that is none");
    assert_eq!(text.matches("<svg").count(), 2 * 5, "curves, importance and three leaves, for a desk and a phone");
    assert!(text.find("plot-leaf-1").unwrap() < text.find("plot-leaf-0").unwrap(), "what matters most comes first");
    let empty = render_search(&page(0));
    assert!(
        empty.contains("No trial has a result yet") && !empty.contains("<svg class=\"plot\" viewBox=\"0 0 760 250\"")
    );
    let failed = SearchPage { trials: page(4).trials.split_off(3), ..page(4) };
    assert!(render_search(&failed).contains("1 trial failed"));
}
