package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"sync"

	"github.com/coder/acp-go-sdk"
)

// An application uses the SDK as its documentation says, and has a host that steers it.
type application struct {
	mu    sync.Mutex
	agent *agent
}

// An agent is a connection of the SDK, and the process that it knows nothing of.
type agent struct {
	conn    *acp.ClientSideConnection
	process *exec.Cmd
	stdin   *pipe
	cwd     string
	login   []acp.AuthMethod
	client  *client
	ended   sync.Once

	mu     sync.Mutex
	closed bool
	lanes  map[string]acp.SessionId
	turns  map[int64]*turn
}

type loadArgs struct {
	Command    []string          `json:"command"`
	Env        map[string]string `json:"env"`
	Cwd        string            `json:"cwd"`
	Mode       string            `json:"mode"`
	Permission string            `json:"permission"`
}

func (app *application) load(raw json.RawMessage) (object, error) {
	args := loadArgs{Permission: "first_allow"}
	if err := only(raw, &args); err != nil {
		return nil, err
	}
	policy, known := policies[args.Permission]
	if !known {
		return nil, unsupported("the permission " + args.Permission)
	}
	a, err := start(args, &client{policy: policy, latest: map[acp.SessionId]*turn{}})
	if err != nil {
		return nil, err
	}
	app.mu.Lock()
	app.agent = a
	app.mu.Unlock()
	result, err := a.open(args)
	if err != nil {
		a.end()
	}
	return result, err
}

func start(args loadArgs, client *client) (*agent, error) {
	cwd := args.Cwd
	if cwd == "" {
		cwd, _ = os.Getwd()
	}
	process := exec.Command(args.Command[0], args.Command[1:]...)
	process.Env = os.Environ()
	for name, value := range args.Env {
		process.Env = append(process.Env, name+"="+value)
	}
	process.Stderr = os.Stderr
	stdin, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, failed("spawn_failed", err, object{"program": args.Command[0]})
	}
	pipe := newPipe(stdin)
	return &agent{
		conn:    acp.NewClientSideConnection(client, pipe, stdout),
		process: process,
		stdin:   pipe,
		cwd:     cwd,
		client:  client,
		lanes:   map[string]acp.SessionId{},
		turns:   map[int64]*turn{},
	}, nil
}

func (a *agent) open(args loadArgs) (object, error) {
	initialized, err := a.conn.Initialize(context.Background(), acp.InitializeRequest{
		ProtocolVersion: acp.ProtocolVersionNumber,
		ClientInfo:      &acp.Implementation{Name: "port-go-sdk", Version: "1.0.0"},
	})
	if err != nil {
		return nil, a.told("initialize", err)
	}
	a.login = initialized.AuthMethods
	session, err := a.lane("main")
	if err != nil || args.Mode == "" {
		return session, err
	}
	_, err = a.conn.SetSessionMode(context.Background(), acp.SetSessionModeRequest{
		SessionId: a.lanes["main"],
		ModeId:    acp.SessionModeId(args.Mode),
	})
	if err != nil {
		return nil, a.told("session/set_mode", err)
	}
	return session, nil
}

func (app *application) lane(raw json.RawMessage) (object, error) {
	var args struct {
		Lane string `json:"lane"`
	}
	if err := only(raw, &args); err != nil {
		return nil, err
	}
	return app.current().lane(args.Lane)
}

func (a *agent) lane(name string) (object, error) {
	session, err := a.conn.NewSession(context.Background(), acp.NewSessionRequest{
		Cwd:        a.cwd,
		McpServers: []acp.McpServer{},
	})
	if err != nil {
		return nil, a.told("session/new", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lanes[name] = session.SessionId
	return object{"session_id": session.SessionId}, nil
}

func (app *application) generate(raw json.RawMessage, seq int64, begun func()) (object, error) {
	args := struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Lane string `json:"lane"`
	}{Lane: "main"}
	if err := only(raw, &args); err != nil {
		return nil, err
	}
	var prompt []acp.ContentBlock
	for _, message := range args.Messages {
		if message.Role == "user" {
			prompt = blocks(message.Content)
		}
	}
	a := app.current()
	a.mu.Lock()
	session := a.lanes[args.Lane]
	t := &turn{session: session}
	a.turns[seq] = t
	a.mu.Unlock()
	a.client.begin(t)
	defer func() {
		a.mu.Lock()
		delete(a.turns, seq)
		a.mu.Unlock()
		a.client.end(t)
	}()
	a.stdin.atNextWrite(begun)
	request := acp.PromptRequest{SessionId: session, Prompt: prompt}
	response, err := a.conn.Prompt(context.Background(), request)
	return a.client.outcome(t, response, a.told("session/prompt", err))
}

// blocks are the prompt for content that is a string or a list of text parts.
func blocks(content json.RawMessage) []acp.ContentBlock {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []acp.ContentBlock{acp.TextBlock(text)}
	}
	var parts []struct{ Text string }
	if err := json.Unmarshal(content, &parts); err != nil {
		panic(err)
	}
	prompt := []acp.ContentBlock{}
	for _, part := range parts {
		prompt = append(prompt, acp.TextBlock(part.Text))
	}
	return prompt
}

func (app *application) cancel(raw json.RawMessage) error {
	var args struct {
		Seq int64 `json:"seq"`
	}
	if err := only(raw, &args); err != nil {
		return err
	}
	a := app.current()
	a.mu.Lock()
	t := a.turns[args.Seq]
	a.mu.Unlock()
	// A turn that has ended or is being cancelled has nothing to cancel.
	if t == nil || !a.client.cancel(t) {
		return nil
	}
	request := acp.CancelNotification{SessionId: t.session}
	return a.told("session/cancel", a.conn.Cancel(context.Background(), request))
}

func (app *application) isAlive() object {
	return object{"alive": !gone(app.current().conn)}
}

func (app *application) close() {
	if a := app.current(); a != nil {
		a.end()
	}
}

// leave lets no process live on when the host has gone without a close.
func (app *application) leave() { app.close() }

func (app *application) current() *agent {
	app.mu.Lock()
	defer app.mu.Unlock()
	return app.agent
}

// end is what the SDK's example does, which has no other way to end a connection.
func (a *agent) end() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.ended.Do(func() {
		_ = a.process.Process.Kill() // It may have ended by itself.
		_ = a.process.Wait()         // Its status says nothing: it was killed.
		<-a.conn.Done()
	})
}

// told gives what the SDK tells about a failure in the words of spec/errors.md.
func (a *agent) told(method string, err error) error {
	var request *acp.RequestError
	if err == nil || !errors.As(err, &request) {
		return err
	}
	a.mu.Lock()
	closed := a.closed
	a.mu.Unlock()
	switch {
	case request.Code == acp.NewInternalError(nil).Code && gone(a.conn) && closed:
		return failed("closed", err, nil)
	case request.Code == acp.NewInternalError(nil).Code && gone(a.conn):
		return failed("agent_exited", err, nil)
	case request.Code == acp.NewAuthRequired(nil).Code:
		return failed("auth_required", errors.New(request.Message), object{"methods": a.methods()})
	default:
		fields := object{"method": method, "code": request.Code, "data": request.Data}
		return failed("rejected", errors.New(request.Message), fields)
	}
}

func (a *agent) methods() []string {
	ids := []string{}
	for _, method := range a.login {
		switch {
		case method.Agent != nil:
			ids = append(ids, method.Agent.Id)
		case method.EnvVar != nil:
			ids = append(ids, method.EnvVar.Id)
		case method.Terminal != nil:
			ids = append(ids, method.Terminal.Id)
		}
	}
	return ids
}

func gone(conn *acp.ClientSideConnection) bool {
	select {
	case <-conn.Done():
		return true
	default:
		return false
	}
}

func failed(kind string, err error, fields object) failure {
	all := object{"kind": kind, "message": err.Error()}
	for name, value := range fields {
		all[name] = value
	}
	return failure{all}
}

// only reads arguments, of which a name that is not known is an option that the SDK does not have.
func only(raw json.RawMessage, args any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(args); err != nil {
		return unsupported(err.Error())
	}
	return nil
}
