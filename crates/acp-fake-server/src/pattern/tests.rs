use serde_json::{Value, json};

use super::{Captures, Difference, Pattern, brief, is_absolute};

fn check(pattern: Value, value: Value) -> Result<(), Difference> {
    Pattern::compile(&pattern)
        .unwrap()
        .check(Some(&value), "$", &mut Captures::new())
}

#[test]
fn each_pattern_matches_what_it_says_and_nothing_else() {
    let table = [
        (json!("$any"), vec![json!(null), json!({})], vec![]),
        (
            json!("$string"),
            vec![json!(""), json!("$any")],
            vec![json!(1), json!(null)],
        ),
        (
            json!("$number"),
            vec![json!(0), json!(-1.5)],
            vec![json!("0")],
        ),
        (
            json!("$bool"),
            vec![json!(false)],
            vec![json!(0), json!(null)],
        ),
        (
            json!("$array"),
            vec![json!([])],
            vec![json!({}), json!("[]")],
        ),
        (
            json!("$object"),
            vec![json!({})],
            vec![json!([]), json!(null)],
        ),
        (
            json!("$abspath"),
            vec![json!("/w"), json!("C:\\w")],
            vec![json!("w"), json!(7)],
        ),
        (
            json!("$nonempty"),
            vec![json!("x"), json!([0]), json!({"a": 1})],
            vec![json!(""), json!([]), json!({}), json!(1)],
        ),
        (
            json!({"$re": "^a+$"}),
            vec![json!("aa")],
            vec![json!("ab"), json!(1)],
        ),
        (
            json!({"$contains": "b"}),
            vec![json!("abc"), json!(["a", "b"])],
            vec![json!("ac"), json!(["ab"]), json!({"b": 1})],
        ),
        (
            json!({"$contains": {"k": 1}}),
            vec![json!([{"k": 2}, {"k": 1, "m": 0}])],
            vec![json!([]), json!([{"k": 2}]), json!("k")],
        ),
        (
            json!({"$oneof": [1, "$string"]}),
            vec![json!(1), json!("s")],
            vec![json!(2)],
        ),
        (
            json!({"$exact": {"a": [1]}}),
            vec![json!({"a": [1.0]})],
            vec![json!({"a": [1], "b": 0}), json!({"a": [2]}), json!({})],
        ),
        (
            json!({"$exact": "$any"}),
            vec![json!("$any")],
            vec![json!(1)],
        ),
        (
            json!("$$any"),
            vec![json!("$any")],
            vec![json!("any"), json!("$$any")],
        ),
        (
            json!({"a": 1}),
            vec![json!({"a": 1, "b": 2})],
            vec![json!({"b": 2}), json!([])],
        ),
        (
            json!({"a": "$absent"}),
            vec![json!({}), json!({"b": 1})],
            vec![json!({"a": null})],
        ),
        (
            json!({"a": {"$oneof": ["$absent", false]}}),
            vec![json!({}), json!({"a": false})],
            vec![json!({"a": true})],
        ),
        (
            json!([1, "$any"]),
            vec![json!([1, 2])],
            vec![json!([1]), json!([1, 2, 3]), json!([2, 2])],
        ),
        (json!([]), vec![json!([])], vec![json!([1])]),
        (
            json!(1),
            vec![json!(1), json!(1.0)],
            vec![json!(2), json!("1"), json!(true)],
        ),
        (
            json!(9_007_199_254_740_993_i64),
            vec![json!(9_007_199_254_740_993_i64)],
            vec![json!(9_007_199_254_740_992_i64)],
        ),
        (json!(null), vec![json!(null)], vec![json!(0), json!({})]),
        (json!(""), vec![json!("")], vec![json!("x")]),
    ];
    for (pattern, matching, others) in table {
        for value in matching {
            assert_eq!(
                check(pattern.clone(), value.clone()),
                Ok(()),
                "{pattern} and {value}"
            );
        }
        for value in others {
            assert!(
                check(pattern.clone(), value.clone()).is_err(),
                "{pattern} and {value}"
            );
        }
    }
}

#[test]
fn an_absent_value_matches_absent_only() {
    let check = |pattern: Value| {
        Pattern::compile(&pattern)
            .unwrap()
            .check(None, "$.params", &mut Captures::new())
    };
    assert_eq!(check(json!("$absent")), Ok(()));
    assert_eq!(check(json!("$any")).unwrap_err().got, "nothing");
    assert!(check(json!({})).is_err());
    assert!(check(json!(null)).is_err());
}

#[test]
fn a_capture_is_remembered_and_compared() {
    let mut captures = Captures::new();
    let cap = Pattern::compile(&json!({"id": {"$cap": "x"}})).unwrap();
    let same = Pattern::compile(&json!({"id": {"$ref": "x"}})).unwrap();

    assert!(
        same.check(Some(&json!({"id": 1})), "$", &mut captures)
            .is_err(),
        "nothing captured"
    );
    cap.check(Some(&json!({"id": [1]})), "$", &mut captures)
        .unwrap();
    assert_eq!(
        same.check(Some(&json!({"id": [1.0]})), "$", &mut captures),
        Ok(())
    );
    let difference = same
        .check(Some(&json!({"id": [2]})), "$", &mut captures)
        .unwrap_err();
    assert_eq!(
        (difference.want.as_str(), difference.got.as_str()),
        ("[1]", "[2]")
    );
    assert_eq!(cap.captures(), ["x"]);
    assert_eq!(same.references(), ["x"]);
}

#[test]
fn a_failed_match_captures_nothing() {
    let mut captures = Captures::new();
    let pattern = Pattern::compile(&json!({"a": {"$cap": "x"}, "b": 1})).unwrap();
    assert!(
        pattern
            .check(Some(&json!({"a": 1, "b": 2})), "$", &mut captures)
            .is_err()
    );
    assert!(captures.is_empty());

    let either = json!({"$oneof": [{"a": {"$cap": "x"}, "b": 1}, {"a": {"$cap": "y"}}]});
    let either = Pattern::compile(&either).unwrap();
    either
        .check(Some(&json!({"a": 1, "b": 2})), "$", &mut captures)
        .unwrap();
    assert_eq!(captures.keys().collect::<Vec<_>>(), ["y"]);
}

#[test]
fn a_difference_names_the_place() {
    let difference = check(
        json!({"p": [{"odd key": "a"}]}),
        json!({"p": [{"odd key": "b"}]}),
    )
    .unwrap_err();
    assert_eq!(
        difference,
        Difference {
            path: "$.p[0][\"odd key\"]".into(),
            want: "\"a\"".into(),
            got: "\"b\"".into(),
        }
    );
}

#[test]
fn a_string_may_be_or_hold_json() {
    let pattern = json!({"$json": {"a": 1, "b": "$absent"}});
    for text in [
        "{\"a\": 1}",
        "{\n\"a\": 1\n}",
        "in words\n{\"a\":1}\nand more",
        "{broken\n{\"a\":2}\n{\"a\":1,\"c\":[]}",
    ] {
        check(pattern.clone(), json!(text)).unwrap();
    }
    for value in [
        json!("{\"a\": 1, \"b\": null}"),
        json!("{\"a\": 2}"),
        json!("words {\"a\": 1}"),
        json!("{\"a\": 2}\n{\"a\": 3}"),
        json!("1\n2"),
        json!(""),
        json!({"a": 1}),
        json!(null),
    ] {
        assert!(check(pattern.clone(), value.clone()).is_err(), "{value}");
    }
    // All of it may be any value, a line only an object or an array.
    check(json!({"$json": 1}), json!("1")).unwrap();
    check(json!({"$json": [2]}), json!("words\n[2]")).unwrap();
    assert!(check(json!({"$json": 1}), json!("words\n1")).is_err());
    let difference = check(pattern, json!("words\n{\"a\":2}")).unwrap_err();
    assert_eq!(
        (&*difference.path, &*difference.want, &*difference.got),
        ("$.a", "1", "2")
    );
}

#[test]
fn a_wrong_pattern_does_not_compile() {
    for (pattern, message) in [
        (json!("$strin"), "unknown wildcard"),
        (json!({"a": ["$nope"]}), "unknown wildcard"),
        (json!({"$re": "("}), "regular expression"),
        (json!({"$re": 1}), "needs a string"),
        (json!({"$oneof": []}), "needs a list"),
        (json!({"$oneof": "a"}), "needs a list"),
        (json!({"$cap": 1}), "needs a string"),
        (json!({"$json": {"a": "$nope"}}), "unknown wildcard"),
        (json!({"$not": 1}), "unknown operator"),
        (json!({"$re": "a", "b": 1}), "only member"),
    ] {
        let error = Pattern::compile(&pattern).unwrap_err();
        assert!(error.contains(message), "{pattern}: {error}");
    }
}

#[test]
fn paths_are_absolute_on_either_system() {
    for path in ["/", "/a/b", "C:\\x", "d:/x", "\\\\host\\share"] {
        assert!(is_absolute(path), "{path}");
    }
    for path in ["", ".", "a/b", "./a", "C:", "C:x", "1:/x", "\\x"] {
        assert!(!is_absolute(path), "{path}");
    }
}

#[test]
fn long_values_are_shortened_between_characters() {
    let text = brief(&json!("é".repeat(100_000)));
    assert!(
        text.len() < 500 && text.starts_with("\"é") && text.ends_with("é\""),
        "{text}"
    );
    assert_eq!(brief(&json!("short")), "\"short\"");
    let text = |len: usize| brief(&json!("x".repeat(len - 2)));
    assert!(!text(400).contains('…'), "it would not be shorter");
    assert!(text(401).contains("…(41 bytes)…"));
}

#[test]
fn names_are_found_at_any_depth() {
    let named = |kind: &str| {
        json!({
            "member": {kind: "a"},
            "items": [{kind: "b"}],
            "one": {"$oneof": ["x", {kind: "c"}]},
            "contains": {"$contains": {kind: "d"}},
            "json": {"$json": {kind: "e"}},
        })
    };
    let captures = Pattern::compile(&named("$cap")).unwrap();
    let mut names = captures.captures();
    names.sort_unstable();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    assert_eq!(captures.references(), [""; 0]);
    let references = Pattern::compile(&named("$ref")).unwrap();
    let mut names = references.references();
    names.sort_unstable();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    assert_eq!(references.captures(), [""; 0]);
}

#[test]
fn one_of_several_may_be_that_the_member_is_not_there() {
    let check = |pattern: Value| {
        Pattern::compile(&json!({"a": {"$oneof": pattern}}))
            .unwrap()
            .check(Some(&json!({})), "$", &mut Captures::new())
    };
    assert!(check(json!(["x", "$absent"])).is_ok());
    assert!(check(json!(["x", "y"])).is_err());
}
