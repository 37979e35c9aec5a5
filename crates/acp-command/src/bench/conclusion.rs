//! What the numbers say, in words, so that nobody takes the agent's start-up for the protocol's.

use std::time::Duration;

use super::measure::{Measured, Sized};
use crate::terminal::human;

/// `None` if too little was measured.
pub(super) fn draw(measured: &Measured) -> Option<String> {
    let of_agent = Medians::of(measured.agent.sizes.first()?)?;
    let Medians {
        answer,
        initialize,
        session,
        turn,
        warm,
    } = of_agent;
    let mut text = format!(
        "From nothing to an answer it is {}, and {} in a warm session.",
        human(answer),
        human(warm)
    );
    if answer <= warm {
        text.push_str(" A warm session saves nothing here.");
    } else {
        text.push_str(&format!(
            " What is saved is the agent's own start-up: {} until it has answered initialize and {} for \
             session/new, paid once and not with each turn",
            human(initialize),
            human(session)
        ));
        // What is less than a twentieth of the whole is noise.
        let longer = turn.saturating_sub(warm);
        if longer * 20 > answer {
            text.push_str(&format!(
                ", and the {} by which its first prompt is longer than a later one",
                human(longer)
            ));
        }
        text.push('.');
    }
    let demo = measured.demo.sizes.first().and_then(Medians::of);
    if let Some(demo) = demo {
        text.push_str(&format!(
            " An agent that does nothing, the demo agent, takes {} from nothing and {} a turn: so much is \
             the protocol's and this program's.",
            human(demo.answer),
            human(demo.warm)
        ));
    }
    text.push_str(" ACP itself makes no agent faster.");
    Some(text)
}

struct Medians {
    answer: Duration,
    initialize: Duration,
    session: Duration,
    turn: Duration,
    /// The best of the state policies.
    warm: Duration,
}

impl Medians {
    fn of(Sized { cold, warm, .. }: &Sized) -> Option<Self> {
        Some(Self {
            answer: cold.answer.median()?,
            initialize: cold.initialize.median()?,
            session: cold.session.median()?,
            turn: cold.turn.median()?,
            warm: warm.iter().filter_map(|warm| warm.turn.median()).min()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing::{measured, ms};

    #[test]
    fn the_gain_is_the_agents_start_up() {
        let text = draw(&measured()).unwrap();
        for part in [
            "it is 2.2 s, and 20 ms in a warm session",
            "start-up: 2.0 s until it has answered initialize and 40 ms for session/new",
            "the 180 ms by which its first prompt is longer",
            "takes 3.0 ms from nothing and 1.0 ms a turn: so much is the protocol's",
            "ACP itself makes no agent faster.",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
    }

    #[test]
    fn no_gain_is_said_to_be_none() {
        let mut measured = measured();
        for slow in [9_000, 9_001, 9_002] {
            measured.agent.sizes[0].warm[0].turn.add(ms(slow));
        }
        let text = draw(&measured).unwrap();
        assert!(text.contains("saves nothing"), "{text}");
        measured.agent.sizes.clear();
        assert_eq!(draw(&measured), None);
    }
}
