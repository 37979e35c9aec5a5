//! The router alone, under a virtual clock.

mod properties;
mod world;

use std::time::Duration;

use super::*;
use crate::error::{AgentExited, ExitInfo};
use world::{Request, World, start};

fn bounds() -> Bounds {
    Bounds {
        min_processes: 1,
        max_processes: 2,
        lanes_per_process: 2,
        queue: 8,
        idle_ttl: Some(Duration::from_secs(60)),
        warm: 0,
        continues: true,
    }
}

fn died() -> LoadError {
    LoadError::AgentExited(Box::new(AgentExited {
        exit: ExitInfo::code(3),
        stderr_tail: String::new(),
    }))
}

/// A world whose processes start and whose lanes open at once.
fn willing(bounds: Bounds) -> World {
    let mut world = World::new(bounds);
    world.is_willing = true;
    world.settle();
    world
}

#[test]
fn the_longest_beginning_is_gone_on_with() {
    let mut world = willing(Bounds {
        max_processes: 1,
        lanes_per_process: 4,
        ..bounds()
    });
    let first = world.answer("k", &Request::new("a"));
    let longer = world.answer("k", &first.next);
    assert_eq!(longer.grant.lane, first.grant.lane);
    // What branches off after the first answer finds no lane that knows no more.
    let branch = world.answer("k", &first.next.with("elsewhere"));
    assert!(!branch.grant.continues);
    assert_ne!(branch.grant.lane, first.grant.lane);
    let on = world.answer("k", &longer.next);
    assert_eq!(on.grant.lane, first.grant.lane);
    // Another key has the same conversation, and another lane.
    let other = world.answer("l", &longer.next);
    assert!(!other.grant.continues);
    let again = world.answer("l", &other.next);
    assert_eq!(again.grant.lane, other.grant.lane);
}

#[test]
fn a_lane_that_was_granted_and_not_used_is_as_it_was() {
    let mut world = willing(bounds());
    let first = world.answer("k", &Request::new("a"));
    let next = world.grant("k", &first.next);
    world.release(next.lane, Used::Not);
    let next = world.grant("k", &first.next);
    assert!(next.continues);
    world.release(next.lane, Used::Failed);
    assert!(!world.grant("k", &first.next).continues);
}

#[test]
fn the_lane_that_was_idle_for_longest_makes_room() {
    let mut world = willing(Bounds {
        max_processes: 1,
        ..bounds()
    });
    let old = world.answer("k", &Request::new("a"));
    world.pass(Duration::from_secs(1));
    let new = world.answer("k", &Request::new("b"));
    world.pass(Duration::from_secs(1));
    world.answer("l", &Request::new("c"));
    assert!(world.grant("k", &new.next).continues);
    assert!(!world.grant("k", &old.next).continues);
}

/// Even who knows beforehand what will be answered waits for its turn.
#[test]
fn a_lane_that_becomes_free_goes_to_the_next_one() {
    let mut world = willing(Bounds {
        max_processes: 1,
        lanes_per_process: 1,
        ..bounds()
    });
    let first = Request::new("a");
    let running = world.grant("k", &first);
    let next = world.acquire("l", &Request::new("b")).unwrap();
    let knows = world.acquire("k", &first.next()).unwrap();
    world.release(running.lane, Used::Answered(Some(first.seen())));
    assert_eq!(
        (world.settled(next), world.settled(knows)),
        (Some(true), None)
    );
}

#[test]
fn a_process_is_started_when_the_others_are_full() {
    let mut world = willing(bounds());
    for (lanes, processes) in [(1, 1), (2, 1), (3, 2), (4, 2)] {
        world.grant("k", &Request::new("a"));
        let metrics = world.router.metrics();
        assert_eq!((metrics.lanes_busy, metrics.processes), (lanes, processes));
    }
}

#[test]
fn idle_lanes_and_processes_end_in_time() {
    let mut world = willing(Bounds {
        warm: 1,
        ..bounds()
    });
    let held: Vec<_> = (0..4)
        .map(|_| world.grant("k", &Request::new("a")))
        .collect();
    let seen = Request::new("a").seen();
    for grant in held {
        world.release(grant.lane, Used::Answered(Some(seen)));
    }
    world.settle();
    assert_eq!(world.router.metrics().lanes_idle, 4);
    world.pass(Duration::from_secs(59));
    assert_eq!(world.router.metrics().lanes_idle, 4);
    assert_eq!(
        world.router.next_timeout(),
        Some(start() + Duration::from_secs(60))
    );
    world.pass(Duration::from_secs(1));
    let metrics = world.router.metrics();
    assert_eq!(
        (metrics.lanes_idle, metrics.lanes_warm, metrics.processes),
        (0, 1, 1)
    );
    // The warm lane and the process stay.
    world.pass(Duration::from_secs(600));
    let metrics = world.router.metrics();
    assert_eq!((metrics.lanes_warm, metrics.processes), (1, 1));
    assert_eq!(world.router.next_timeout(), None);
}

#[test]
fn without_a_time_to_live_nothing_ends() {
    let mut world = willing(Bounds {
        idle_ttl: None,
        ..bounds()
    });
    let first = world.answer("k", &Request::new("a"));
    world.pass(Duration::from_secs(1_000_000));
    assert!(world.grant("k", &first.next).continues);
}

#[test]
fn failures_in_a_row_are_paused_for_and_told() {
    let mut world = World::new(Bounds {
        max_processes: 1,
        ..bounds()
    });
    let ticket = world.acquire("k", &Request::new("a")).unwrap();
    for (failure, pause) in [(1, 0), (2, 100)] {
        let process = world.starting[0];
        world.become_ready(process);
        world.fail(process, &died());
        world.be_gone(process);
        assert_eq!(world.settled(ticket), None, "after failure {failure}");
        let due = (pause > 0).then(|| world.now + Duration::from_millis(pause));
        assert_eq!(world.router.next_timeout(), due);
        if let Some(due) = due {
            assert_eq!(world.starting, []);
            world.now = due;
            world.router.handle_timeout(due);
            world.take();
        }
        assert_eq!(world.starting.len(), 1);
    }
    let process = world.starting[0];
    world.become_ready(process);
    world.fail(process, &died());
    assert_eq!(world.settled(ticket), Some(false));
    // An answer ends the row.
    world.be_gone(process);
    world.is_willing = true;
    world.pass(Duration::from_secs(10));
    world.answer("k", &Request::new("b"));
    let process = *world.ready.iter().next().unwrap();
    world.is_willing = false;
    world.fail(process, &died());
    world.be_gone(process);
    assert_eq!(world.starting.len(), 1);
}

#[test]
fn one_that_cannot_start_is_told_at_once_unless_others_run() {
    let mut world = World::new(bounds());
    let waits = world.acquire("k", &Request::new("a")).unwrap();
    world
        .router
        .process_failed(world.starting[0], &died(), world.now);
    world.take();
    assert_eq!(world.settled(waits), Some(false));

    let mut world = willing(bounds());
    world.grant("k", &Request::new("a"));
    world.grant("k", &Request::new("a"));
    world.is_willing = false;
    let waits = world.acquire("k", &Request::new("a")).unwrap();
    world
        .router
        .process_failed(world.starting[0], &died(), world.now);
    world.take();
    assert_eq!(world.settled(waits), None);
}

#[test]
fn a_lane_that_does_not_open_is_told_to_one_who_waits() {
    let mut world = World::new(bounds());
    let tickets = ["k", "k", "l"].map(|key| world.acquire(key, &Request::new("a")).unwrap());
    world.become_ready(world.starting[0]);
    let refused = LoadError::InvalidOptions("no".to_owned());
    let lane = *world.opening.keys().next().unwrap();
    world.refuse(lane, &refused);
    let settled = tickets.map(|ticket| world.settled(ticket));
    assert_eq!(settled, [Some(false), None, None]);
    // One that was opened ahead is told to nobody.
    let mut world = World::new(Bounds {
        warm: 2,
        ..bounds()
    });
    let waits = world.acquire("k", &Request::new("a")).unwrap();
    world.become_ready(world.starting[0]);
    let lane = *world.opening.keys().next().unwrap();
    world.refuse(lane, &refused);
    assert_eq!(world.settled(waits), None);
    assert_eq!(world.opening.len(), 1);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.opening.len(), 2);
}

#[test]
fn a_process_that_opens_no_session_in_time_is_replaced() {
    let mut world = willing(Bounds {
        max_processes: 1,
        ..bounds()
    });
    let running = world.grant("k", &Request::new("a"));
    world.is_willing = false;
    world.acquire("k", &Request::new("a")).unwrap();
    world.take();
    let late = LoadError::StartupTimeout {
        method: "session/new",
        limit: Duration::from_secs(1),
        stderr_tail: String::new(),
    };
    let lane = *world.opening.keys().next().unwrap();
    world.refuse(lane, &late);
    // Not before its last turn has ended.
    assert!(world.ending.is_empty());
    world.release(running.lane, Used::Answered(None));
    assert_eq!(world.ending.len(), 1);
    assert_eq!(world.router.metrics().restarts, 1);
}

#[test]
fn who_cannot_wait_is_told_how_many_do() {
    let mut world = willing(Bounds {
        max_processes: 1,
        queue: 3,
        ..bounds()
    });
    let held = [0, 1].map(|_| world.grant("k", &Request::new("a")));
    for _ in 0..3 {
        world.acquire("k", &Request::new("a")).unwrap();
    }
    let error = world.acquire("l", &Request::new("a")).unwrap_err();
    assert!(matches!(error, GenerateError::Busy { queued: 3 }));
    // Those whose lanes are on their way do not count.
    world.is_willing = false;
    for grant in held {
        world.release(grant.lane, Used::Failed);
    }
    for _ in 0..2 {
        world.acquire("l", &Request::new("a")).unwrap();
    }
    let error = world.acquire("l", &Request::new("a")).unwrap_err();
    assert!(matches!(error, GenerateError::Busy { queued: 3 }));
}

#[test]
fn a_pool_that_drains_serves_those_who_are_here() {
    let mut world = willing(Bounds {
        max_processes: 1,
        lanes_per_process: 1,
        ..bounds()
    });
    let running = world.grant("k", &Request::new("a"));
    let waits = world.acquire("l", &Request::new("a")).unwrap();
    world.router.close();
    let error = world.acquire("l", &Request::new("a")).unwrap_err();
    assert_eq!(error.kind(), "closed");
    assert!(!world.router.is_drained());
    world.release(running.lane, Used::Failed);
    world.settle();
    assert_eq!(world.settled(waits), Some(true));
    let lane = *world.busy.keys().next().unwrap();
    world.release(lane, Used::Answered(None));
    assert!(world.router.is_drained());
    world.router.end();
    world.settle();
    assert!(world.router.is_gone());
}
