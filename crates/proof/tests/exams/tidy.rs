//! The house keeps its walls and its manners. Each test tells all that is wrong, with file and line.

use esker_proof::tidy::{formats, imports, links, sizes};

fn none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn imports_never_go_up() {
    none(&imports::through_walls());
}

#[test]
fn no_file_function_or_line_outgrows_its_limit() {
    none(&sizes::too_big());
}

#[test]
fn nothing_is_left_unfinished() {
    none(&sizes::unfinished());
}

#[test]
fn every_module_opens_with_what_it_is_for() {
    none(&sizes::without_header());
}

#[test]
fn every_link_leads_somewhere() {
    none(&links::dead());
}

#[test]
fn prose_and_code_describe_the_same_bytes() {
    none(&formats::drift());
}
