//! Which state policy for which agent? See `SPIKE.md`.

mod context;
mod report;
mod subject;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use acp_mock_model::Script;
use clap::Parser;
use spikes::claims::{self, Claims};
use spikes::real::Recipe;

use subject::{Policy, Subject};

/// Measures the state policies on a real agent, with the mock model behind it.
///
/// Prints Markdown; exits 1 where a claim does not hold, and 2 where nothing could be measured.
#[derive(Parser)]
#[command(max_term_width = 100)]
struct Arguments {
    /// The agent, by its name in `conformance/agents/pins.toml`; `cargo xtask agents --setup` installs it.
    agent: String,
    /// Turns of the conversation.
    #[arg(long, value_name = "N", default_value_t = 10)]
    turns: usize,
    /// The host's pause after each turn, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 800)]
    pause: u64,
    /// The policies.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "full-request,fresh,fresh-spare,fresh-unclosed,delta,cold"
    )]
    policies: Vec<Policy>,
    /// Ask no models that answer this question or that.
    #[arg(long)]
    no_questions: bool,
}

/// What the host's system says: about 4 KB.
fn system() -> String {
    prose(
        "This is what the host of this conversation says first.",
        0,
        4096,
    )
}

/// A token that is in the user's message of this turn and in no other.
pub fn token(turn: usize) -> String {
    format!("token-{turn:04}-of-the-user")
}

/// What the user says in this turn: about 300 characters, of which the mock model's answer has the last 200, and
/// so not the token.
fn user(turn: usize) -> String {
    prose(
        &format!("What is to be said of {}?", token(turn)),
        turn + 1,
        300,
    )
}

/// Goes on with words of no sense until the text is this long. They repeat no sentence, because gemini takes an
/// answer that does for a loop, and starts its turn anew.
fn prose(begin: &str, seed: usize, length: usize) -> String {
    const SYLLABLES: [&str; 16] = [
        "ba", "du", "fe", "go", "hi", "ka", "lo", "mu", "ne", "po", "ri", "sa", "tu", "ve", "wo",
        "zi",
    ];
    let mut text = begin.to_owned();
    // The generator of Knuth's MMIX.
    let mut state = seed as u64;
    while text.len() < length {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push(' ');
        for shift in [44, 50, 56] {
            text.push_str(SYLLABLES[(state >> shift) as usize % SYLLABLES.len()]);
        }
    }
    text
}

fn main() -> ExitCode {
    claims::conclude(measure(&Arguments::parse()))
}

fn measure(arguments: &Arguments) -> io::Result<Claims> {
    let recipe = Recipe::named(&arguments.agent)?;
    let pause = Duration::from_millis(arguments.pause);
    let mut subjects = Vec::new();
    for &policy in &arguments.policies {
        eprintln!("starting {}", policy.name());
        let mut subject = Subject::start(policy, &recipe, pause)?;
        subject.begin(&system());
        subjects.push(subject);
    }
    // By turns, so that all policies meet the same machine.
    for turn in 1..=arguments.turns {
        eprintln!("turn {turn} of {}", arguments.turns);
        for subject in &mut subjects {
            subject.turn(&user(turn), &token(turn));
        }
    }
    // Turn 0 is the first one, edited.
    let (edited, last) = (token(0), arguments.turns + 1);
    for subject in &mut subjects {
        eprintln!("an edited message: {}", subject.policy.name());
        subject.edit_first(&format!(
            "What is to be said of {edited}, which was edited?"
        ));
        subject.turn(&user(last), &token(last));
    }
    let mut answers = Vec::new();
    if !arguments.no_questions {
        let questions: Vec<String> = (1..=3)
            .map(|i| format!("What is the colour of number-{i}?"))
            .collect();
        // Whether the process is new as well makes no difference to what is in a new session.
        let warm = |subject: &&mut Subject| subject.policy != Policy::Cold;
        for subject in subjects.iter_mut().filter(warm) {
            eprintln!("questions: {}", subject.policy.name());
            let scripts = [Script::First, Script::Last, Script::Marker];
            let right = scripts.map(|script| subject.right_answers(script, &questions));
            answers.push((subject.policy, right));
        }
    }
    print!("{}", report::tables(&subjects, arguments.turns, &answers));
    Ok(report::claims(&subjects, arguments.turns))
}
