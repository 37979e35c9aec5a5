// The driver of the Go SDK (spec/driver-protocol.md). It adapts and fixes nothing.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

const version = "0.13.0" // as in go.mod

var capabilities = []string{"cancel", "lanes", "mode", "parts", "permission", "is_alive", "messages"}

type object = map[string]any

func main() {
	app := &application{}
	defer app.leave()
	requests := json.NewDecoder(os.Stdin)
	for {
		var request struct {
			Seq  int64
			Op   string
			Args json.RawMessage
		}
		if requests.Decode(&request) != nil {
			return
		}
		switch request.Op {
		case "hello":
			port := object{"name": "go-sdk", "language": "go", "version": version}
			answer(request.Seq, "ok", object{"protocol": 1, "port": port, "capabilities": capabilities})
		case "bye":
			answer(request.Seq, "ok", object{})
			return
		default:
			perform(app, request.Seq, request.Op, request.Args)
		}
	}
}

// perform starts an operation and goes on when it has begun: requests are read while operations run.
func perform(app *application, seq int64, op string, args json.RawMessage) {
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	go func() {
		defer begin()
		defer func() {
			if panicked := recover(); panicked != nil {
				answer(seq, "crash", fmt.Sprint(panicked))
			}
		}()
		var result object
		var err error
		switch op {
		case "load":
			begin()
			result, err = app.load(args)
		case "lane":
			begin()
			result, err = app.lane(args)
		case "generate":
			// It calls begin when the prompt is on its way, as a cancel may be the next request.
			result, err = app.generate(args, seq, begin)
		case "cancel":
			err = app.cancel(args)
		case "is_alive":
			result = app.isAlive()
		case "close":
			begin()
			app.close()
		default:
			err = unsupported(op)
		}
		report(seq, result, err)
	}()
	<-begun
}

func report(seq int64, result object, err error) {
	var failed failure
	var missing unsupported
	switch {
	case err == nil && result == nil:
		answer(seq, "ok", object{})
	case err == nil:
		answer(seq, "ok", result)
	case errors.As(err, &failed):
		answer(seq, "err", failed.fields)
	case errors.As(err, &missing):
		answer(seq, "unsupported", string(missing))
	default:
		answer(seq, "crash", err.Error())
	}
}

var output = struct {
	sync.Mutex
	*json.Encoder
}{Encoder: json.NewEncoder(os.Stdout)}

func answer(seq int64, kind string, body any) {
	output.Lock()
	defer output.Unlock()
	if err := output.Encode(object{"seq": seq, kind: body}); err != nil {
		panic(err)
	}
}

// A failure is an error that the SDK told of, in the words of spec/errors.md.
type failure struct{ fields object }

func (f failure) Error() string { return fmt.Sprint(f.fields["message"]) }

// An unsupported operation or option is one that the SDK does not have.
type unsupported string

func (u unsupported) Error() string { return string(u) }
