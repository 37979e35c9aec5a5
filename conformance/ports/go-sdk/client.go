package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/coder/acp-go-sdk"
)

// The kinds of option that each policy takes, the best first.
var policies = map[string][][]acp.PermissionOptionKind{
	"first_allow": {{acp.PermissionOptionKindAllowOnce, acp.PermissionOptionKindAllowAlways}},
	"allow_once":  {{acp.PermissionOptionKindAllowOnce}, {acp.PermissionOptionKindAllowAlways}},
	"reject":      {{acp.PermissionOptionKindRejectOnce}, {acp.PermissionOptionKindRejectAlways}},
}

// A client is what the SDK calls: it gathers the text of the latest turn of each session, and answers
// permission requests.
type client struct {
	undeclared
	policy [][]acp.PermissionOptionKind

	mu     sync.Mutex
	latest map[acp.SessionId]*turn
}

type turn struct {
	session   acp.SessionId
	cancelled bool
	content   string
	messages  []message
}

type message struct {
	MessageID *string `json:"message_id"`
	Text      string  `json:"text"`
}

func (c *client) SessionUpdate(_ context.Context, params acp.SessionNotification) error {
	chunk := params.Update.AgentMessageChunk
	if chunk == nil || chunk.Content.Text == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.latest[params.SessionId]; t != nil {
		t.append(chunk.MessageId, chunk.Content.Text.Text)
	}
	return nil
}

func (t *turn) append(id *string, text string) {
	t.content += text
	if last := len(t.messages) - 1; last >= 0 && same(t.messages[last].MessageID, id) {
		t.messages[last].Text += text
	} else {
		t.messages = append(t.messages, message{id, text})
	}
}

func same(a, b *string) bool {
	return a == b || (a != nil && b != nil && *a == *b)
}

func (c *client) RequestPermission(_ context.Context, params acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.latest[params.SessionId]
	// ACP has the application answer "cancelled" after a cancel.
	if t == nil || !t.cancelled {
		for _, kinds := range c.policy {
			for _, option := range params.Options {
				if slices.Contains(kinds, option.Kind) {
					outcome := acp.NewRequestPermissionOutcomeSelected(option.OptionId)
					return acp.RequestPermissionResponse{Outcome: outcome}, nil
				}
			}
		}
	}
	return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()}, nil
}

func (c *client) begin(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest[t.session] = t
}

func (c *client) end(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest[t.session] == t {
		delete(c.latest, t.session)
	}
}

// cancel notes that the turn is being cancelled, and is false where it was before.
func (c *client) cancel(t *turn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := t.cancelled
	t.cancelled = true
	return !was
}

func (c *client) outcome(t *turn, response acp.PromptResponse, err error) (object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended := errors.New("the turn ended with " + string(response.StopReason))
	switch {
	case err != nil:
	case response.StopReason == acp.StopReasonCancelled:
		err = failed("cancelled", ended, nil)
	case response.StopReason == acp.StopReasonRefusal:
		err = failed("refused", ended, nil)
	default:
		return object{"content": t.content, "messages": t.messages, "stop_reason": response.StopReason}, nil
	}
	var told failure
	// When the agent ends, Prompt returns before the handler has had the last updates, and nothing tells when
	// it has: how much of the text is there then is left to chance.
	if errors.As(err, &told) && told.fields["kind"] != "agent_exited" && t.content != "" {
		told.fields["partial"] = t.content
	}
	return nil, err
}

// The methods of undeclared are those of the SDK's interface for what this client does not declare.
type undeclared struct{}

func (undeclared) ReadTextFile(context.Context, acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	return acp.ReadTextFileResponse{}, acp.NewMethodNotFound(acp.ClientMethodFsReadTextFile)
}

func (undeclared) WriteTextFile(context.Context, acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	return acp.WriteTextFileResponse{}, acp.NewMethodNotFound(acp.ClientMethodFsWriteTextFile)
}

func (undeclared) CreateTerminal(context.Context, acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	return acp.CreateTerminalResponse{}, acp.NewMethodNotFound(acp.ClientMethodTerminalCreate)
}

func (undeclared) KillTerminal(context.Context, acp.KillTerminalRequest) (acp.KillTerminalResponse, error) {
	return acp.KillTerminalResponse{}, acp.NewMethodNotFound(acp.ClientMethodTerminalKill)
}

func (undeclared) TerminalOutput(context.Context, acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	return acp.TerminalOutputResponse{}, acp.NewMethodNotFound(acp.ClientMethodTerminalOutput)
}

func (undeclared) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	return acp.ReleaseTerminalResponse{}, acp.NewMethodNotFound(acp.ClientMethodTerminalRelease)
}

func (undeclared) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	return acp.WaitForTerminalExitResponse{}, acp.NewMethodNotFound(acp.ClientMethodTerminalWaitForExit)
}

// A pipe is the agent's input. Prompt returns at the end of its turn and does not tell when it is on its
// way; the pipe, which is the application's, does.
type pipe struct {
	io.Writer
	mu      sync.Mutex
	waiting []func()
}

func newPipe(to io.Writer) *pipe { return &pipe{Writer: to} }

func (p *pipe) atNextWrite(then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, then)
}

func (p *pipe) Write(line []byte) (int, error) {
	n, err := p.Writer.Write(line)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, then := range p.waiting {
		then()
	}
	p.waiting = nil
	return n, err
}
