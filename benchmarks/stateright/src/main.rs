//! Two-phase commit, checked breadth first by Stateright: the peer of `benchmarks/explore`.
//!
//! The model is the textbook one (Gray and Lamport, "Consensus on Transaction Commit"), with the
//! actions and properties of `TwoPhaseCommit` in `properties/specs.py`. It holds its state as
//! Stateright's own example does: vectors for the managers, a set for the messages. The checker runs
//! with its default settings, and keeps paths. `two-phase-commit N` prints one line of JSON:
//!
//! - `unique`: the number of distinct states;
//! - `generated`: the number of steps taken (Stateright counts the initial state too, which is
//!   subtracted here);
//! - `seconds`: the wall time of the checking alone;
//! - `max_rss`: the largest resident memory of the process in bytes (0 where /proc is missing).

use serde_json::json;
use stateright::{Checker, Model, Property};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Phase {
    Working,
    Prepared,
    Committed,
    Aborted,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Decision {
    None,
    Committed,
    Aborted,
}

/// What was sent; nothing that was sent is ever lost or taken away.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Message {
    Prepared(usize),
    Commit,
    Abort,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct State {
    phase: Vec<Phase>,
    decision: Decision,
    known: Vec<bool>,
    sent: BTreeSet<Message>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Action {
    ReceivePrepared(usize),
    DecideCommit,
    DecideAbort,
    Prepare(usize),
    ChooseAbort(usize),
    ReceiveCommit(usize),
    ReceiveAbort(usize),
}

/// The protocol for so many resource managers.
struct TwoPhaseCommit {
    managers: usize,
}

impl TwoPhaseCommit {
    /// What one manager, or the transaction manager about one, may do.
    fn actions_of(&self, state: &State, m: usize, actions: &mut Vec<Action>) {
        let undecided = state.decision == Decision::None;
        if undecided && state.sent.contains(&Message::Prepared(m)) {
            actions.push(Action::ReceivePrepared(m));
        }
        if state.phase[m] == Phase::Working {
            actions.push(Action::Prepare(m));
            actions.push(Action::ChooseAbort(m));
        }
        if state.sent.contains(&Message::Commit) {
            actions.push(Action::ReceiveCommit(m));
        }
        if state.sent.contains(&Message::Abort) {
            actions.push(Action::ReceiveAbort(m));
        }
    }
}

impl Model for TwoPhaseCommit {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            phase: vec![Phase::Working; self.managers],
            decision: Decision::None,
            known: vec![false; self.managers],
            sent: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.decision == Decision::None {
            if state.known.iter().all(|known| *known) {
                actions.push(Action::DecideCommit);
            }
            actions.push(Action::DecideAbort);
        }
        for m in 0..self.managers {
            self.actions_of(state, m, actions);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::ReceivePrepared(m) => state.known[m] = true,
            Action::DecideCommit => {
                state.decision = Decision::Committed;
                state.sent.insert(Message::Commit);
            }
            Action::DecideAbort => {
                state.decision = Decision::Aborted;
                state.sent.insert(Message::Abort);
            }
            Action::Prepare(m) => {
                state.phase[m] = Phase::Prepared;
                state.sent.insert(Message::Prepared(m));
            }
            Action::ChooseAbort(m) => state.phase[m] = Phase::Aborted,
            Action::ReceiveCommit(m) => state.phase[m] = Phase::Committed,
            Action::ReceiveAbort(m) => state.phase[m] = Phase::Aborted,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("managers agree", |_, state: &State| {
                !(state.phase.contains(&Phase::Aborted) && state.phase.contains(&Phase::Committed))
            }),
            Property::sometimes("all commit", |_, state: &State| {
                state.phase.iter().all(|phase| *phase == Phase::Committed)
            }),
            Property::sometimes("all abort", |_, state: &State| {
                state.phase.iter().all(|phase| *phase == Phase::Aborted)
            }),
        ]
    }
}

/// The largest resident memory of this process in bytes, 0 where the system does not tell.
fn max_rss() -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(0, |kilobytes| kilobytes * 1024)
}

fn main() -> ExitCode {
    let managers = std::env::args().nth(1).and_then(|n| n.parse::<usize>().ok());
    let Some(managers) = managers.filter(|n| *n > 0) else {
        eprintln!("usage: two-phase-commit N    (N resource managers, at least 1)");
        return ExitCode::from(2);
    };
    let model = TwoPhaseCommit { managers };
    let begun = Instant::now();
    let checker = model.checker().spawn_bfs().join();
    let seconds = begun.elapsed().as_secs_f64();
    checker.assert_properties();
    let figures = json!({
        "unique": checker.unique_state_count(),
        "generated": checker.state_count() - 1,
        "seconds": seconds,
        "max_rss": max_rss(),
    });
    println!("{figures}");
    ExitCode::SUCCESS
}
