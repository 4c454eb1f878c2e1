//go:build unix

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/daemontest"
	"github.com/hermesd/hermesd/transport/acpclient"
)

func init() {
	kinds = append(kinds, struct {
		name string
		make func(t *testing.T, s settings) *place
	}{process, processes})
}

// programs builds hermesd and the shim once; removePrograms takes them away.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hdbin")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	programsDir = dir
	return dir, daemontest.Build(ctx, dir, daemontest.RaceFlags()...)
})

// processes makes a place of real processes.
func processes(t *testing.T, s settings) *place {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	config := ""
	if s.timeout != 0 || s.deny {
		config = "[permissions]\n"
		if s.timeout != 0 {
			config += fmt.Sprintf("timeout = %q\n", s.timeout)
		}
		if s.deny {
			config += "detached = \"deny\"\n"
		}
	}
	home, err := daemontest.NewHome(bin, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", home.Log())
		}
		if err := home.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &place{t: t, cwd: home.Work}
	var d *daemontest.Daemon
	serve := func() {
		if d, err = home.Serve(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	serve()
	p.dial = func() net.Conn {
		c, err := net.Dial("unix", home.Socket())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	p.spawn = func(o acpclient.Options) *acpclient.Client {
		cmd := exec.Command(filepath.Join(bin, "hermes-acp-shim"))
		cmd.Dir, cmd.Env = home.Work, home.Env
		shim, err := acpclient.Spawn(cmd, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := shim.Close(); err != nil && !errors.Is(err, acpclient.ErrClosed) {
				t.Errorf("closing a shim: %v\n%s", err, shim.Stderr())
			}
		})
		p.initialize(shim.Client)
		return shim.Client
	}
	// The store keeps some MiB for its database for a while.
	p.bound, p.chunks = 16<<20, 2000
	p.memory = func(e *acpclient.Client) int64 {
		var status struct {
			Memory struct {
				Heap int64 `json:"heapBytes"`
			} `json:"memory"`
		}
		if err := e.Call(within(t), "_hermes/status", map[string]any{"collect": true}, &status); err != nil {
			t.Fatal(err)
		}
		return status.Memory.Heap
	}
	p.crash = func(only bool) {
		if !only {
			t.Fatal("the power of real processes can't be cut")
		}
		d.Kill()
		for _, left := range home.Processes() { // of the tools it ran
			if proc, err := os.FindProcess(left.PID); err == nil {
				_ = proc.Kill()
			}
		}
		serve()
	}
	return p
}
