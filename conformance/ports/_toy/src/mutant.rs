//! The rules this client can be told to break, one at a time, by `MUTANT=name`.
//!
//! `conformance/mutants.toml` says of each what it breaks and which transcripts must notice.

use std::sync::OnceLock;

/// Whether this process is to break this rule.
pub fn broken(mutant: Mutant) -> bool {
    CHOSEN.get().copied().flatten() == Some(mutant)
}

/// Reads `MUTANT`. An unknown name is an error: a mutant that breaks nothing would look as if it had
/// survived.
pub fn choose_from_environment() -> Result<(), String> {
    let chosen = match std::env::var("MUTANT") {
        Err(_) => None,
        Ok(name) => match Mutant::ALL.iter().find(|(_, known)| *known == name) {
            Some((mutant, _)) => Some(*mutant),
            None => return Err(format!("there is no mutant named {name:?}")),
        },
    };
    CHOSEN
        .set(chosen)
        .map_err(|_| "MUTANT was read twice".to_owned())
}

static CHOSEN: OnceLock<Option<Mutant>> = OnceLock::new();

macro_rules! mutants {
    ($($variant:ident = $name:literal,)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant { $($variant,)* }

        impl Mutant {
            const ALL: &[(Mutant, &str)] = &[$((Mutant::$variant, $name),)*];
        }
    };
}

mutants! {
    // Handshake and sessions.
    VersionAsString = "version-as-string",
    NoClientInfo = "no-client-info",
    DeclaresFiles = "declares-files",
    AcceptsAnyVersion = "accepts-any-version",
    InitializeErrorIgnored = "initialize-error-ignored",
    NullIsFatal = "null-is-fatal",
    CapabilitiesRequired = "capabilities-required",
    UnknownFieldIsFatal = "unknown-field-is-fatal",
    RelativeCwd = "relative-cwd",
    CwdNotChecked = "cwd-not-checked",
    NoMcpServers = "no-mcp-servers",
    EarlyUpdateIsFatal = "early-update-is-fatal",
    MissingSessionIdIsEmpty = "missing-session-id-is-empty",
    SessionNewRetried = "session-new-retried",
    ErrorDataDropped = "error-data-dropped",
    LoadErrorLeavesProcess = "load-error-leaves-process",
    ModeNotSent = "mode-not-sent",
    ModeErrorIgnored = "mode-error-ignored",
    AuthIsRejected = "auth-is-rejected",
    AuthMethodsDropped = "auth-methods-dropped",
    // Turns.
    SessionEachTurn = "session-each-turn",
    AnySessionCounts = "any-session-counts",
    ThoughtsAreText = "thoughts-are-text",
    EchoIsText = "echo-is-text",
    AnyUpdateIsText = "any-update-is-text",
    AnyContentIsText = "any-content-is-text",
    OddUpdateIsFatal = "odd-update-is-fatal",
    TextNotCleared = "text-not-cleared",
    TextTrimmed = "text-trimmed",
    StopReasonIgnored = "stop-reason-ignored",
    LimitsAreErrors = "limits-are-errors",
    CancelledByAgentIsAnswer = "cancelled-by-agent-is-answer",
    UnknownStopReasonIsAnswer = "unknown-stop-reason-is-answer",
    MissingStopReasonIsEndTurn = "missing-stop-reason-is-end-turn",
    MalformedAnswerIsFatal = "malformed-answer-is-fatal",
    EmptyTurnIsAnswer = "empty-turn-is-answer",
    EmptyTurnNeverAllowed = "empty-turn-never-allowed",
    PartialDropped = "partial-dropped",
    PromptErrorEndsProcess = "prompt-error-ends-process",
    DroppedNotCounted = "dropped-not-counted",
    // Prompts.
    NoMarker = "no-marker",
    MarkerNamesFirstQuestion = "marker-names-first-question",
    MarkerNamesLastMessage = "marker-names-last-message",
    EmptyMessagesKept = "empty-messages-kept",
    PartsJoinedByLineBreak = "parts-joined-by-line-break",
    LineBreaksFlattened = "line-breaks-flattened",
    // Permissions.
    FirstOptionWhatever = "first-option-whatever",
    KindAsOptionId = "kind-as-option-id",
    RejectionSelected = "rejection-selected",
    NothingOfferedUnanswered = "nothing-offered-unanswered",
    PolicyIgnored = "policy-ignored",
    UnknownOptionKindIsFatal = "unknown-option-kind-is-fatal",
    FlatOutcome = "flat-outcome",
    PermissionNeedsKnownSession = "permission-needs-known-session",
    PermissionNeedsTurn = "permission-needs-turn",
    // Ids and requests of the agent.
    IdBeforeMethod = "id-before-method",
    StringIdAsNumber = "string-id-as-number",
    ZeroIsNoId = "zero-is-no-id",
    RequestIdNotEchoed = "request-id-not-echoed",
    UnknownResponseIsFatal = "unknown-response-is-fatal",
    NullIdIsFatal = "null-id-is-fatal",
    UnknownRequestIgnored = "unknown-request-ignored",
    UnknownRequestIsSuccess = "unknown-request-is-success",
    // Cancelling and limits.
    CancelNotSent = "cancel-not-sent",
    CancelTrustsAnswer = "cancel-trusts-answer",
    CancelEndsProcess = "cancel-ends-process",
    CancelNamesFirstSession = "cancel-names-first-session",
    CancelsEndedTurn = "cancels-ended-turn",
    CancelHitsRunningTurn = "cancel-hits-running-turn",
    PermissionAfterCancelAllowed = "permission-after-cancel-allowed",
    NoStartupTimeout = "no-startup-timeout",
    TimeoutWithoutCancel = "timeout-without-cancel",
    IdleNotRestarted = "idle-not-restarted",
    IdleIsDeadline = "idle-is-deadline",
    // Lanes.
    PromptsNotQueued = "prompts-not-queued",
    LanesSerialised = "lanes-serialised",
    LaneErrorIsFatal = "lane-error-is-fatal",
    // The process.
    EndOfOutputIgnored = "end-of-output-ignored",
    ExitIsEndOfTurn = "exit-is-end-of-turn",
    ExitCodeDropped = "exit-code-dropped",
    SignalAsExitCode = "signal-as-exit-code",
    StderrTailDropped = "stderr-tail-dropped",
    WaitingTurnsForgotten = "waiting-turns-forgotten",
    ExitedIsClosed = "exited-is-closed",
    LoadsOnce = "loads-once",
    AlwaysAlive = "always-alive",
    CloseTwiceIsError = "close-twice-is-error",
    CloseKeepsTurns = "close-keeps-turns",
    ClosedIsExited = "closed-is-exited",
    CloseDoesNotWait = "close-does-not-wait",
    CloseStopsAtTerm = "close-stops-at-term",
    CloseLeavesGrandchild = "close-leaves-grandchild",
    // Framing.
    NoiseIsFatal = "noise-is-fatal",
    CarriageReturnIsNoise = "carriage-return-is-noise",
    ByteOrderMarkIsNoise = "byte-order-mark-is-noise",
    DecodesEachRead = "decodes-each-read",
    OneLineEachRead = "one-line-each-read",
    LineLimit = "line-limit",
    StderrNotDrained = "stderr-not-drained",
}

#[cfg(test)]
mod tests {
    use super::Mutant;

    #[test]
    fn the_ledger_lists_exactly_these_mutants() {
        let ledger = include_str!("../../../mutants.toml");
        let listed = ledger
            .lines()
            .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        let known = Mutant::ALL.iter().map(|(_, name)| *name);
        assert_eq!(listed.collect::<Vec<_>>(), known.collect::<Vec<_>>());
    }
}
