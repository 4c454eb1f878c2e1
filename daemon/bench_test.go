package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/acp"
)

// BenchmarkStream sends b.N chunks of 200 bytes through session, store and
// sockets to one editor and to eight.
func BenchmarkStream(b *testing.B) {
	for _, editors := range []int{1, 8} {
		b.Run(fmt.Sprintf("editors=%d", editors), func(b *testing.B) { stream(b, editors) })
	}
}

func stream(b *testing.B, editors int) {
	text := strings.Repeat("x", 200)
	agent := &daemontest.Script{Turn: func(ctx context.Context, st *daemontest.Stage) (session.TurnResult, error) {
		chunk := acp.AgentText(fmt.Sprintf("msg_%d", st.Seq), text, nil)
		for range b.N {
			if err := st.Update(ctx, bytes.Clone(chunk)); err != nil {
				return session.TurnResult{}, err
			}
		}
		return session.TurnResult{}, nil
	}}
	h := daemontest.NewHouse(b, openStore(b), agent, nil)
	ln, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go h.Daemon.ServeConn(&transport.Conn{Conn: c, Principal: transport.Principal{UID: os.Getuid(), Network: "unix"}})
		}
	}()
	cwd := b.TempDir()
	var lines []*bufio.Reader
	var first net.Conn
	var id string
	for i := range editors {
		c, err := net.Dial("unix", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		r := bufio.NewReaderSize(c, 256<<10)
		fmt.Fprintln(c, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`)
		until(b, r, `"id":0,`)
		if i == 0 {
			fmt.Fprintf(c, `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`+"\n", cwd)
			answer := until(b, r, `"id":1,`)
			res, _ := acp.Get(answer, "result")
			id, _ = acp.GetString(res, "sessionId")
			first = c
		} else {
			fmt.Fprintf(c, `{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":%q,"cwd":%q,"mcpServers":[]}}`+"\n", id, cwd)
			until(b, r, `"id":1,`)
		}
		lines = append(lines, r)
	}
	b.ResetTimer()
	fmt.Fprintf(first, `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}`+"\n", id)
	done := make(chan error, editors)
	for _, r := range lines {
		go func() {
			for {
				line, err := r.ReadSlice('\n')
				if err != nil || bytes.Contains(line, []byte(`"state":"idle"`)) {
					done <- err
					return
				}
			}
		}()
	}
	for range lines {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
}

func until(b *testing.B, r *bufio.Reader, part string) []byte {
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF || err != nil {
			b.Fatal(err)
		}
		if bytes.Contains(line, []byte(part)) && bytes.Contains(line, []byte(`"result"`)) {
			return line
		}
	}
}
