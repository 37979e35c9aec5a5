//! A driver that stands before another one and holds every line against `driver.schema.json`, so
//! that a line which breaks it, in either direction, makes the cell `broken`.

use std::{
    collections::HashMap,
    env,
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::Mutex,
    thread,
};

use jsonschema::Validator;
use serde_json::{Value, json};

/// Passes lines between the standard streams and the driver that the arguments start.
pub fn proxy() -> ExitCode {
    let lint = Lint::read();
    let mut args = env::args_os().skip(1);
    let mut driver = Command::new(args.next().unwrap())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut requests = driver.stdin.take().unwrap();
    let answers = BufReader::new(driver.stdout.take().unwrap());
    thread::scope(|scope| {
        let lint = &lint;
        scope.spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                lint.request(&line);
                // The driver may have ended.
                if writeln!(requests, "{line}").is_err() {
                    break;
                }
            }
        });
        for line in answers.lines().map_while(Result::ok) {
            lint.answer(&line);
            println!("{line}");
        }
        let status = driver.wait().unwrap();
        // The thread may wait for requests that do not come any more.
        std::process::exit(status.code().unwrap_or(1));
    })
}

struct Lint {
    document: Value,
    request: Validator,
    answer: Validator,
    ops: Mutex<HashMap<u64, String>>,
}

impl Lint {
    fn read() -> Lint {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/driver.schema.json");
        let text = std::fs::read_to_string(path).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        Lint {
            request: validator(&document, "request"),
            answer: validator(&document, "answer"),
            document,
            ops: Mutex::default(),
        }
    }

    fn request(&self, line: &str) {
        let Some(request) = self.check(&self.request, "request", line) else {
            return;
        };
        let seq = request["seq"].as_u64().unwrap();
        let op = request["op"].as_str().unwrap().to_owned();
        self.ops.lock().unwrap().insert(seq, op);
    }

    fn answer(&self, line: &str) {
        let Some(answer) = self.check(&self.answer, "answer", line) else {
            return;
        };
        if let Some(ok) = answer.get("ok") {
            let seq = answer["seq"].as_u64().unwrap();
            let op = self.ops.lock().unwrap().remove(&seq);
            let name = format!("{}_ok", op.as_deref().unwrap_or("unasked"));
            let schema = validator(&self.document, &name);
            self.check(&schema, &name, &ok.to_string());
        }
    }

    /// Says on standard output, where only answers may be, what is wrong.
    fn check(&self, schema: &Validator, name: &str, line: &str) -> Option<Value> {
        let value: Value = serde_json::from_str(line).unwrap();
        let fault = schema
            .iter_errors(&value)
            .next()
            .map(|error| error.to_string());
        if let Some(fault) = fault {
            println!("the {name} breaks driver.schema.json: {fault}: {line}");
            return None;
        }
        Some(value)
    }
}

fn validator(document: &Value, name: &str) -> Validator {
    let schema = json!({"$ref": format!("#/$defs/{name}"), "$defs": document["$defs"]});
    jsonschema::draft202012::new(&schema).unwrap()
}
