package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server may send progress and ask something right behind its first answer,
// when the link has hardly been made. (What is tested is seen by the race
// detector.)
func TestAServerThatTalksRightBehindItsFirstAnswer(t *testing.T) {
	var answered atomic.Int32
	for range 30 {
		set := Open([]Server{{Name: "x"}}, Options{Cwd: t.TempDir(), dial: func(ctx context.Context, s *server) (*link, error) {
			in, toServer := io.Pipe()
			fromServer, out := io.Pipe()
			go func() { // ends with the pipes
				for lines := bufio.NewScanner(in); lines.Scan(); {
					var m struct {
						ID     json.RawMessage
						Method string
						Result *struct{ Action string }
					}
					_ = json.Unmarshal(lines.Bytes(), &m)
					switch {
					case m.Method == "initialize":
						_, _ = io.WriteString(out, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`+"\n"+
							`{"jsonrpc":"2.0","id":"a","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`+"\n"+
							strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"call-1","progress":1}}`+"\n", 50))
					case m.Method == "tools/list":
						_, _ = io.WriteString(out, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"tools":[]}}`+"\n")
					case m.Result != nil && m.Result.Action == "cancel":
						answered.Add(1)
					}
				}
			}()
			end := func() { toServer.Close(); out.Close() }
			return s.opts.handshake(ctx, s, &sdk.IOTransport{Reader: fromServer, Writer: toServer}, end)
		}})
		set.Wait(within(t), time.Minute)
		if st := set.Status()[0]; st.State != Ready {
			t.Errorf("%+v", st)
		}
		set.Close()
	}
	if answered.Load() == 0 {
		t.Error("what it asked was never answered")
	}
}
