//! The page about tools shows a program that runs.

use std::fs;
use std::path::Path;

#[test]
fn the_page_about_tools_shows_the_example() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/tools.md")).unwrap();
    let example = fs::read_to_string(here.join("examples/two_tools.rs")).unwrap();
    // All but the comment at its beginning, which is about where it is.
    let (_, program) = example.split_once("\n\n").unwrap();
    assert!(page.contains(program), "docs/tools.md has an old program");
}
