//! What a value must look like: subset matching, wildcards and captures.

use std::collections::BTreeMap;
use std::fmt;

use regex_lite::Regex;
use serde_json::{Map, Value};

/// Values that `{"$cap":NAME}` remembered, by name.
pub type Captures = BTreeMap<String, Value>;

/// A compiled pattern; see "Patterns" in `spec/transcript-format.md`.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: Value,
    kind: Kind,
}

/// The first place where a value is not what the pattern says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The place, as a JSON path such as `$.params.prompt[0].text`.
    pub path: String,
    /// The pattern there.
    pub want: String,
    /// The value there, or `nothing`.
    pub got: String,
}

impl Pattern {
    /// Compiles a pattern from its JSON form.
    ///
    /// # Errors
    ///
    /// Where in the pattern the fault is, as a JSON path, and what it is: an unknown wildcard, a regular expression that does not compile, or an operator with company
    /// or with an argument of the wrong type.
    pub fn compile(source: &Value) -> Result<Pattern, String> {
        Pattern::compile_at(source, &Path::Root("$"))
    }

    /// Compiles the pattern that stands at `root`, a JSON path with which every error begins.
    pub(crate) fn compile_within(source: &Value, root: &str) -> Result<Pattern, String> {
        Pattern::compile_at(source, &Path::Root(root))
    }

    fn compile_at(source: &Value, path: &Path<'_>) -> Result<Pattern, String> {
        let kind = match source {
            Value::String(text) => Kind::from_text(text, path)?,
            Value::Array(items) => Kind::Array(compile_all(items, path)?),
            Value::Object(members) => Kind::from_object(members, path)?,
            scalar => Kind::Equal(scalar.clone()),
        };
        Ok(Pattern {
            source: source.clone(),
            kind,
        })
    }

    /// The pattern in its JSON form.
    #[must_use]
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Compares `value` (`None` where it is absent) with this pattern. `path` is where it stands, and
    /// `captures` is what earlier patterns remembered; it is changed only if the value matches.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn check(
        &self,
        value: Option<&Value>,
        path: &str,
        captures: &mut Captures,
    ) -> Result<(), Difference> {
        let mut tentative = captures.clone();
        self.descend(value, &Path::Root(path), &mut tentative)?;
        *captures = tentative;
        Ok(())
    }

    /// The names in `{"$cap":NAME}`, at any depth.
    #[must_use]
    pub fn captures(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.visit(&mut |kind| {
            if let Kind::Cap(name) = kind {
                names.push(name.as_str());
            }
        });
        names
    }

    /// The names in `{"$ref":NAME}`, at any depth.
    #[must_use]
    pub fn references(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.visit(&mut |kind| {
            if let Kind::Ref(name) = kind {
                names.push(name.as_str());
            }
        });
        names
    }

    fn visit<'a>(&'a self, see: &mut impl FnMut(&'a Kind)) {
        see(&self.kind);
        match &self.kind {
            Kind::Contains { item, .. } | Kind::Json(item) => item.visit(see),
            Kind::OneOf(options) | Kind::Array(options) => {
                for option in options {
                    option.visit(see);
                }
            }
            Kind::Object(members) => {
                for (_, member) in members {
                    member.visit(see);
                }
            }
            _ => {}
        }
    }

    fn descend(
        &self,
        value: Option<&Value>,
        path: &Path<'_>,
        captures: &mut Captures,
    ) -> Result<(), Difference> {
        let differs = || Difference {
            path: path.to_string(),
            want: brief(&self.source),
            got: value.map_or_else(|| "nothing".to_owned(), brief),
        };
        let Some(value) = value else {
            return match &self.kind {
                Kind::Absent => Ok(()),
                Kind::OneOf(options) if options.iter().any(Pattern::is_absent) => Ok(()),
                _ => Err(differs()),
            };
        };
        let matched = match &self.kind {
            Kind::Any => true,
            Kind::Absent => false,
            Kind::String => value.is_string(),
            Kind::Number => value.is_number(),
            Kind::Bool => value.is_boolean(),
            Kind::AnyArray => value.is_array(),
            Kind::AnyObject => value.is_object(),
            Kind::AbsPath => value.as_str().is_some_and(is_absolute),
            Kind::NonEmpty => match value {
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                Value::Object(members) => !members.is_empty(),
                _ => false,
            },
            Kind::Re(regex) => value.as_str().is_some_and(|text| regex.is_match(text)),
            Kind::Contains { text, item } => match value {
                Value::String(whole) => text
                    .as_ref()
                    .is_some_and(|part| whole.contains(part.as_str())),
                Value::Array(items) => {
                    first_match(std::slice::from_ref(&**item), items, path, captures)
                }
                _ => false,
            },
            Kind::Json(pattern) => match &*json_in(value) {
                // With one there is no doubt about what was meant, so the difference is within it.
                [only] => return pattern.descend(Some(only), path, captures),
                several => first_match(std::slice::from_ref(&**pattern), several, path, captures),
            },
            Kind::OneOf(options) => {
                first_match(options, std::slice::from_ref(value), path, captures)
            }
            Kind::Exact(want) | Kind::Equal(want) => equal(want, value),
            Kind::Cap(name) => {
                captures.insert(name.clone(), value.clone());
                true
            }
            Kind::Ref(name) => match captures.get(name) {
                Some(want) if equal(want, value) => true,
                Some(want) => {
                    return Err(Difference {
                        want: brief(want),
                        ..differs()
                    });
                }
                None => false,
            },
            Kind::Array(patterns) => {
                let Some(items) = value.as_array().filter(|i| i.len() == patterns.len()) else {
                    return Err(differs());
                };
                for (index, (pattern, item)) in patterns.iter().zip(items).enumerate() {
                    pattern.descend(Some(item), &Path::Index(path, index), captures)?;
                }
                true
            }
            Kind::Object(members) => {
                let Some(object) = value.as_object() else {
                    return Err(differs());
                };
                for (key, pattern) in members {
                    pattern.descend(object.get(key), &Path::Key(path, key), captures)?;
                }
                true
            }
        };
        if matched { Ok(()) } else { Err(differs()) }
    }

    fn is_absent(&self) -> bool {
        matches!(self.kind, Kind::Absent)
    }
}

/// Whether two values are equal, numbers by value: `1` equals `1.0`.
#[must_use]
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        // Integers are never compared as floats, which would make large neighbours equal.
        (Value::Number(a), Value::Number(b)) => {
            a == b || ((a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// Whether `path` is absolute on Unix or on Windows.
#[must_use]
pub fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    match bytes {
        [b'/', ..] | [b'\\', b'\\', ..] => true,
        [drive, b':', b'/' | b'\\', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    }
}

/// `value` as JSON on one line, with the middle left out where it is long.
#[must_use]
pub fn brief(value: &Value) -> String {
    shorten(&value.to_string())
}

/// `text` with the middle left out where it is long.
#[must_use]
pub fn shorten(text: &str) -> String {
    const HEAD: usize = 280;
    const TAIL: usize = 80;
    if text.len() <= HEAD + TAIL + 40 {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(HEAD);
    let tail = text.ceil_char_boundary(text.len() - TAIL);
    format!(
        "{}…({} bytes)…{}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

#[derive(Debug, Clone)]
enum Kind {
    Any,
    Absent,
    String,
    Number,
    Bool,
    AnyArray,
    AnyObject,
    AbsPath,
    NonEmpty,
    Re(Regex),
    /// `text` is what a string must contain, `item` what an element of an array must look like.
    Contains {
        text: Option<String>,
        item: Box<Pattern>,
    },
    Json(Box<Pattern>),
    OneOf(Vec<Pattern>),
    Exact(Value),
    Cap(String),
    Ref(String),
    Array(Vec<Pattern>),
    Object(Vec<(String, Pattern)>),
    Equal(Value),
}

impl Kind {
    fn from_text(text: &str, path: &Path<'_>) -> Result<Kind, String> {
        Ok(match text {
            "$any" => Kind::Any,
            "$absent" => Kind::Absent,
            "$string" => Kind::String,
            "$number" => Kind::Number,
            "$bool" => Kind::Bool,
            "$array" => Kind::AnyArray,
            "$object" => Kind::AnyObject,
            "$abspath" => Kind::AbsPath,
            "$nonempty" => Kind::NonEmpty,
            _ => match text.strip_prefix('$') {
                Some(rest) if rest.starts_with('$') => Kind::Equal(Value::String(rest.to_owned())),
                Some(_) => return Err(format!("{path}: unknown wildcard {text:?}")),
                None => Kind::Equal(Value::String(text.to_owned())),
            },
        })
    }

    fn from_object(members: &Map<String, Value>, path: &Path<'_>) -> Result<Kind, String> {
        let Some((operator, argument)) = members.iter().find(|(key, _)| key.starts_with('$'))
        else {
            let compile = |(key, member): (&String, &Value)| {
                let path = Path::Key(path, key);
                Ok((key.clone(), Pattern::compile_at(member, &path)?))
            };
            return Ok(Kind::Object(
                members.iter().map(compile).collect::<Result<_, String>>()?,
            ));
        };
        if members.len() > 1 {
            return Err(format!(
                "{path}: {operator:?} must be the only member of its object"
            ));
        }
        let text = || {
            argument
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| format!("{path}: {operator:?} needs a string"))
        };
        Ok(match operator.as_str() {
            "$re" => {
                let source = text()?;
                Kind::Re(
                    Regex::new(&source)
                        .map_err(|e| format!("{path}: regular expression {source:?}: {e}"))?,
                )
            }
            "$contains" => {
                let item = Box::new(Pattern::compile_at(argument, path)?);
                let text = match &item.kind {
                    Kind::Equal(Value::String(text)) => Some(text.clone()),
                    _ => None,
                };
                Kind::Contains { text, item }
            }
            "$json" => Kind::Json(Box::new(Pattern::compile_at(argument, path)?)),
            "$oneof" => match argument.as_array() {
                Some(options) if !options.is_empty() => Kind::OneOf(compile_all(options, path)?),
                _ => return Err(format!("{path}: \"$oneof\" needs a list of patterns")),
            },
            "$exact" => Kind::Exact(argument.clone()),
            "$cap" => Kind::Cap(text()?),
            "$ref" => Kind::Ref(text()?),
            _ => return Err(format!("{path}: unknown operator {operator:?}")),
        })
    }
}

/// Where a value stands; kept as a chain so that a path is written only for a difference.
enum Path<'a> {
    Root(&'a str),
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root(root) => f.write_str(root),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Key(parent, key) => {
                let plain =
                    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                if plain {
                    write!(f, "{parent}.{key}")
                } else {
                    write!(f, "{parent}[{key:?}]")
                }
            }
        }
    }
}

fn compile_all(sources: &[Value], path: &Path<'_>) -> Result<Vec<Pattern>, String> {
    let compile = |(index, source)| Pattern::compile_at(source, &Path::Index(path, index));
    sources.iter().enumerate().map(compile).collect()
}

/// What a string holds as JSON: all of it, or else each of its lines that is an object or an array.
fn json_in(value: &Value) -> Vec<Value> {
    let text = value.as_str().unwrap_or_default();
    if let Ok(whole) = serde_json::from_str(text) {
        return vec![whole];
    }
    let lines = text.lines().filter(|line| line.starts_with(['{', '[']));
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Whether one of the patterns matches one of the values; captures come from the first pair that does.
fn first_match(
    patterns: &[Pattern],
    values: &[Value],
    path: &Path<'_>,
    captures: &mut Captures,
) -> bool {
    patterns.iter().any(|pattern| {
        values.iter().any(|value| {
            let mut tentative = captures.clone();
            let matched = pattern.descend(Some(value), path, &mut tentative).is_ok();
            if matched {
                *captures = tentative;
            }
            matched
        })
    })
}

#[cfg(test)]
mod tests;
