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
    NoClientCapabilities = "no-client-capabilities",
    DeclaresFiles = "declares-files",
    InitializeNotAwaited = "initialize-not-awaited",
    AcceptsAnyVersion = "accepts-any-version",
    VersionReadLoosely = "version-read-loosely",
    InitializeErrorIgnored = "initialize-error-ignored",
    NullIsFatal = "null-is-fatal",
    CapabilitiesRequired = "capabilities-required",
    CapabilitiesMustFit = "capabilities-must-fit",
    UnknownFieldIsFatal = "unknown-field-is-fatal",
    RelativeCwd = "relative-cwd",
    CwdNotChecked = "cwd-not-checked",
    NoMcpServers = "no-mcp-servers",
    DirectoriesSent = "directories-sent",
    ConfigOptionsMustFit = "config-options-must-fit",
    EarlyUpdateIsFatal = "early-update-is-fatal",
    MissingSessionIdIsEmpty = "missing-session-id-is-empty",
    SharedSessionAccepted = "shared-session-accepted",
    LateSessionKept = "late-session-kept",
    ClosesUnasked = "closes-unasked",
    SessionNewRetried = "session-new-retried",
    ErrorDataDropped = "error-data-dropped",
    ErrorMessageRequired = "error-message-required",
    LoadErrorLeavesProcess = "load-error-leaves-process",
    ModeNotSent = "mode-not-sent",
    ModeErrorIgnored = "mode-error-ignored",
    OfferedModesIgnored = "offered-modes-ignored",
    ModeAlwaysRequired = "mode-always-required",
    ModeAnswerMustBeObject = "mode-answer-must-be-object",
    AuthIsRejected = "auth-is-rejected",
    AuthMethodsDropped = "auth-methods-dropped",
    NeverAuthenticates = "never-authenticates",
    AuthenticatesUnasked = "authenticates-unasked",
    AuthenticatesAgain = "authenticates-again",
    LoginNotOfferedIsTried = "login-not-offered-is-tried",
    TerminalLoginTried = "terminal-login-tried",
    LoginErrorIgnored = "login-error-ignored",
    // Turns.
    SessionEachTurn = "session-each-turn",
    AnySessionCounts = "any-session-counts",
    ThoughtsAreText = "thoughts-are-text",
    EchoIsText = "echo-is-text",
    AnyUpdateIsText = "any-update-is-text",
    AnyContentIsText = "any-content-is-text",
    OddUpdateIsFatal = "odd-update-is-fatal",
    NullInUpdateIsFatal = "null-in-update-is-fatal",
    MetaIsRead = "meta-is-read",
    TextNotCleared = "text-not-cleared",
    TextTrimmed = "text-trimmed",
    RepetitionsDropped = "repetitions-dropped",
    ChunksAreMessages = "chunks-are-messages",
    MessagesSorted = "messages-sorted",
    MessageIdDropped = "message-id-dropped",
    StopReasonIgnored = "stop-reason-ignored",
    LimitsAreErrors = "limits-are-errors",
    CancelledByAgentIsAnswer = "cancelled-by-agent-is-answer",
    UnknownStopReasonIsAnswer = "unknown-stop-reason-is-answer",
    MissingStopReasonIsEndTurn = "missing-stop-reason-is-end-turn",
    UsageMustBeWhole = "usage-must-be-whole",
    MalformedAnswerIsFatal = "malformed-answer-is-fatal",
    EmptyTurnIsAnswer = "empty-turn-is-answer",
    EmptyTurnNeverAllowed = "empty-turn-never-allowed",
    PartialDropped = "partial-dropped",
    PromptErrorEndsProcess = "prompt-error-ends-process",
    DroppedNotCounted = "dropped-not-counted",
    RefusedNotCounted = "refused-not-counted",
    LateTextNotAwaited = "late-text-not-awaited",
    LateTextAwaitedForEver = "late-text-awaited-for-ever",
    LateTextNotCounted = "late-text-not-counted",
    LatenessForgotten = "lateness-forgotten",
    SettleOptionIgnored = "settle-option-ignored",
    // Prompts.
    NoMarker = "no-marker",
    MarkerNamesFirstQuestion = "marker-names-first-question",
    MarkerNamesLastMessage = "marker-names-last-message",
    EmptyMessagesKept = "empty-messages-kept",
    PartsJoinedByLineBreak = "parts-joined-by-line-break",
    LineBreaksFlattened = "line-breaks-flattened",
    LoneMessageUnlabelled = "lone-message-unlabelled",
    // Permissions.
    FirstOptionWhatever = "first-option-whatever",
    KindAsOptionId = "kind-as-option-id",
    RejectionSelected = "rejection-selected",
    NothingOfferedUnanswered = "nothing-offered-unanswered",
    PolicyIgnored = "policy-ignored",
    UnknownOptionKindIsFatal = "unknown-option-kind-is-fatal",
    MalformedPermissionUnanswered = "malformed-permission-unanswered",
    FlatOutcome = "flat-outcome",
    PermissionNeedsKnownSession = "permission-needs-known-session",
    PermissionNeedsTurn = "permission-needs-turn",
    ChoicesIgnored = "choices-ignored",
    OnePermissionAtATime = "one-permission-at-a-time",
    HostNamesAnything = "host-names-anything",
    HostCannotCancel = "host-cannot-cancel",
    HostPanicUnanswered = "host-panic-unanswered",
    HostMayThinkForever = "host-may-think-forever",
    SilentHostAllows = "silent-host-allows",
    // Ids and requests of the agent.
    IdBeforeMethod = "id-before-method",
    StringIdAsNumber = "string-id-as-number",
    ZeroIsNoId = "zero-is-no-id",
    RequestIdNotEchoed = "request-id-not-echoed",
    UnknownResponseIsFatal = "unknown-response-is-fatal",
    NullIdIsFatal = "null-id-is-fatal",
    UnknownRequestIgnored = "unknown-request-ignored",
    UnknownRequestIsSuccess = "unknown-request-is-success",
    RequestsWaitForSession = "requests-wait-for-session",
    RequestHookIgnored = "request-hook-ignored",
    AnyRequestHooked = "any-request-hooked",
    UnknownNotificationIsFatal = "unknown-notification-is-fatal",
    NotificationAnswered = "notification-answered",
    CancelledRequestAnsweredAgain = "cancelled-request-answered-again",
    AnswerIdMustBeNumber = "answer-id-must-be-number",
    SecondAnswerCounts = "second-answer-counts",
    AnswersMatchedByOrder = "answers-matched-by-order",
    ErrorCodeNotChecked = "error-code-not-checked",
    ErrorBesideResultIgnored = "error-beside-result-ignored",
    EmptyAnswerIsAnswer = "empty-answer-is-answer",
    NullErrorIsError = "null-error-is-error",
    // Cancelling and limits.
    CancelNotSent = "cancel-not-sent",
    CancelTrustsAnswer = "cancel-trusts-answer",
    CancelEndsProcess = "cancel-ends-process",
    CancelNamesFirstSession = "cancel-names-first-session",
    CancelsEndedTurn = "cancels-ended-turn",
    CancelHitsRunningTurn = "cancel-hits-running-turn",
    PermissionAfterCancelAllowed = "permission-after-cancel-allowed",
    CancelForgetsPermissions = "cancel-forgets-permissions",
    CancelUndoesAnswer = "cancel-undoes-answer",
    ExitUndoesCancel = "exit-undoes-cancel",
    SecondCancelSent = "second-cancel-sent",
    TextAfterCancelKept = "text-after-cancel-kept",
    ToolsAfterCancelAreFatal = "tools-after-cancel-are-fatal",
    CancelNotRepeated = "cancel-not-repeated",
    CancelAlwaysRepeated = "cancel-always-repeated",
    CancelWaitsForever = "cancel-waits-forever",
    IgnoredCancelEndsProcess = "ignored-cancel-ends-process",
    SessionKeptAfterIgnoredCancel = "session-kept-after-ignored-cancel",
    OldAnswerEndsNextTurn = "old-answer-ends-next-turn",
    OldSessionAllowed = "old-session-allowed",
    OldSessionUsedAgain = "old-session-used-again",
    ReopeningEndsLane = "reopening-ends-lane",
    ModeSetOnce = "mode-set-once",
    NoStartupTimeout = "no-startup-timeout",
    TimeoutWithoutCancel = "timeout-without-cancel",
    IdleNotRestarted = "idle-not-restarted",
    IdleIsDeadline = "idle-is-deadline",
    AnySessionKeepsTurn = "any-session-keeps-turn",
    ToolsMustBeQuick = "tools-must-be-quick",
    ToolsNeverEnd = "tools-never-end",
    HostMustBeQuick = "host-must-be-quick",
    ThinkingIsSilence = "thinking-is-silence",
    DeadlineStartsAgain = "deadline-starts-again",
    WaitingIsFree = "waiting-is-free",
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
    ExitFailsFirstLaneOnly = "exit-fails-first-lane-only",
    ExitUndoesAnswer = "exit-undoes-answer",
    ExitedIsClosed = "exited-is-closed",
    LoadsOnce = "loads-once",
    RestartIgnored = "restart-ignored",
    RestartByDefault = "restart-by-default",
    RestartsUnasked = "restarts-unasked",
    RestartReplays = "restart-replays",
    RestartForgetsMode = "restart-forgets-mode",
    RestartForgetsLanes = "restart-forgets-lanes",
    AlwaysAlive = "always-alive",
    CloseTwiceIsError = "close-twice-is-error",
    CloseForgetsPermissions = "close-forgets-permissions",
    CloseKeepsTurns = "close-keeps-turns",
    ClosedIsExited = "closed-is-exited",
    CloseDoesNotWait = "close-does-not-wait",
    CloseStopsAtTerm = "close-stops-at-term",
    CloseLeavesGrandchild = "close-leaves-grandchild",
    // Framing.
    NoiseIsFatal = "noise-is-fatal",
    NoiseNotShown = "noise-not-shown",
    GluedNoiseLosesMessage = "glued-noise-loses-message",
    CopyBeforeCounts = "copy-before-counts",
    CopyAfterCounts = "copy-after-counts",
    OwnLineIsAnswered = "own-line-is-answered",
    CarriageReturnIsNoise = "carriage-return-is-noise",
    ByteOrderMarkIsNoise = "byte-order-mark-is-noise",
    InvalidUtf8IsNoise = "invalid-utf8-is-noise",
    LoneHalfIsNoise = "lone-half-is-noise",
    HalvesNotJoined = "halves-not-joined",
    LastLineLost = "last-line-lost",
    DecodesEachRead = "decodes-each-read",
    OneLineEachRead = "one-line-each-read",
    LineLimit = "line-limit",
    LongLineIsFatal = "long-line-is-fatal",
    LongLineRead = "long-line-read",
    LongLineCut = "long-line-cut",
    StderrNotDrained = "stderr-not-drained",
    // State.
    FreshSessionMarked = "fresh-session-marked",
    FreshSessionReused = "fresh-session-reused",
    NoSpare = "no-spare",
    SpareUnasked = "spare-unasked",
    SpareErrorIsFatal = "spare-error-is-fatal",
    OldSessionNotClosed = "old-session-not-closed",
    NeverWornOut = "never-worn-out",
    DeltaIsFull = "delta-is-full",
    DeltaUnverified = "delta-unverified",
    DeltaTrustsAnswer = "delta-trusts-answer",
    DeltaTrustsQuestions = "delta-trusts-questions",
    DeltaOfRetry = "delta-of-retry",
    DeltaAfterFailure = "delta-after-failure",
    DeltaAfterLateText = "delta-after-late-text",
    FreshIdTrusted = "fresh-id-trusted",
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
