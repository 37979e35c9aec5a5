//! Whatever callers, processes and sessions do, the rules hold, and everybody gets an end.

use std::time::Duration;

use proptest::prelude::*;

use super::super::*;
use super::died;
use super::world::{Request, World};

#[derive(Debug, Clone)]
enum Step {
    /// A caller of a key, with a conversation of its own or the next turn of one that was answered.
    Acquire {
        key: u8,
        goes_on: Option<u8>,
    },
    Leave(u8),
    Release(u8, u8),
    Ready(u8),
    Opened(u8),
    Refused(u8),
    Fails(u8),
    Gone(u8),
    Retires(u8),
    Pass(u16),
    /// Everything that was asked for comes about.
    Settle,
    Close,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..4_u8, prop::option::of(any::<u8>()))
            .prop_map(|(key, goes_on)| Step::Acquire { key, goes_on }),
        2 => any::<u8>().prop_map(Step::Leave),
        8 => (any::<u8>(), 0..6_u8).prop_map(|(lane, used)| Step::Release(lane, used)),
        3 => any::<u8>().prop_map(Step::Ready),
        5 => any::<u8>().prop_map(Step::Opened),
        1 => any::<u8>().prop_map(Step::Refused),
        1 => any::<u8>().prop_map(Step::Fails),
        2 => any::<u8>().prop_map(Step::Gone),
        1 => any::<u8>().prop_map(Step::Retires),
        2 => (0..30_000_u16).prop_map(Step::Pass),
        2 => Just(Step::Settle),
    ]
}

fn any_bounds() -> impl Strategy<Value = Bounds> {
    let sizes = (0..3_usize, 1..4_usize, 1..4_usize, 0..6_usize, 0..3_usize);
    (sizes, any::<bool>(), any::<bool>()).prop_map(|(sizes, ends, continues)| {
        let (min, max, lanes, queue, warm) = sizes;
        Bounds {
            min_processes: min.min(max),
            max_processes: max,
            lanes_per_process: lanes,
            queue,
            idle_ttl: ends.then_some(Duration::from_secs(20)),
            warm,
            continues,
        }
    })
}

fn pick<T: Copy>(of: impl IntoIterator<Item = T>, which: u8) -> Option<T> {
    let of: Vec<T> = of.into_iter().collect();
    (!of.is_empty()).then(|| of[usize::from(which) % of.len()])
}

/// Callers beside the router: what was answered may go on.
struct Play {
    world: World,
    answered: Vec<(u8, Request)>,
    requests: std::collections::BTreeMap<Ticket, (u8, Request)>,
}

impl Play {
    fn step(&mut self, step: &Step, number: usize) {
        let world = &mut self.world;
        match *step {
            Step::Acquire { key, goes_on } => {
                let go_on = goes_on.and_then(|which| {
                    (!self.answered.is_empty())
                        .then(|| self.answered[usize::from(which) % self.answered.len()].clone())
                });
                // Any key may know the text of any other.
                let request = match go_on {
                    Some((_, request)) => request,
                    None => Request::new(&number.to_string()),
                };
                let name = ["", "a", "b", "c"][usize::from(key)];
                if let Ok(ticket) = world.acquire(name, &request) {
                    self.requests.insert(ticket, (key, request));
                }
            }
            Step::Leave(which) => {
                let waiting: Vec<Ticket> = world.waiting().collect();
                if let Some(ticket) = pick(waiting, which) {
                    world.leave(ticket);
                }
            }
            Step::Release(which, used) => self.release(which, used),
            Step::Ready(which) => {
                if let Some(process) = pick(world.starting.clone(), which) {
                    world.become_ready(process);
                }
            }
            Step::Opened(which) => {
                if let Some(lane) = pick(world.opening.keys().copied(), which) {
                    world.be_opened(lane);
                }
            }
            Step::Refused(which) => {
                if let Some(lane) = pick(world.opening.keys().copied(), which) {
                    world.refuse(lane, &LoadError::InvalidOptions("no".to_owned()));
                }
            }
            Step::Fails(which) => {
                let all = world.starting.iter().chain(&world.ready);
                if let Some(process) = pick(all.copied(), which) {
                    world.fail(process, &died());
                }
            }
            Step::Gone(which) => {
                if let Some(process) = pick(world.ending.iter().copied(), which) {
                    world.be_gone(process);
                }
            }
            Step::Retires(which) => {
                if let Some(process) = pick(world.ready.iter().copied(), which) {
                    world.router.retire(process, world.now);
                    world.settle();
                }
            }
            Step::Pass(millis) => world.pass(Duration::from_millis(millis.into())),
            Step::Settle => while world.step() {},
            Step::Close => world.router.close(),
        }
    }

    fn release(&mut self, which: u8, used: u8) {
        let Some((lane, ticket)) = pick(self.world.busy.clone(), which) else {
            return;
        };
        let (key, request) = self.requests[&ticket].clone();
        let used = match used {
            0 => Used::Failed,
            1 => Used::Not,
            2 => Used::Answered(None),
            _ => {
                self.answered.push((key, request.next()));
                Used::Answered(Some(request.seen()))
            }
        };
        self.world.release(lane, used);
    }
}

proptest! {
    #[test]
    fn the_rules_hold_and_everybody_gets_an_end(
        bounds in any_bounds(),
        steps in prop::collection::vec(any_step(), 1..120),
        drains in any::<bool>(),
    ) {
        let mut play = Play {
            world: World::new(bounds),
            answered: Vec::new(),
            requests: std::collections::BTreeMap::new(),
        };
        for (number, step) in steps.iter().enumerate() {
            play.step(step, number);
        }
        if drains {
            play.step(&Step::Close, 0);
        }
        // From here on all goes well, and whoever waits is served.
        play.world.is_willing = true;
        for _ in 0..2000 {
            play.world.settle();
            play.release(0, 5);
            if play.world.busy.is_empty() {
                if play.world.waiting().next().is_none() {
                    break;
                }
                play.world.pass(Duration::from_secs(10));
            }
        }
        prop_assert_eq!(play.world.waiting().collect::<Vec<_>>(), []);
        prop_assert!(play.world.router.is_drained());
        play.world.router.end();
        play.world.settle();
        prop_assert!(play.world.router.is_gone());
        prop_assert_eq!(play.world.router.next_timeout(), None);
    }
}
