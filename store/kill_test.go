package store

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store/storetest"
)

const childDir = "HERMESD_STORE_TEST_DIR"

// child is a process of a test: the one on a full disk, or the one that is
// killed, which appends to some logs for ever and
// says on stdout what the store told it.
func child() bool {
	if dir := os.Getenv(fullDir); dir != "" {
		if err := onFullDisk(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return true
	}
	dir := os.Getenv(childDir)
	if dir == "" {
		return false
	}
	s, err := Open(dir, Options{SegmentBytes: 20000, TransferAfter: 3 * time.Millisecond, TransferBytes: 30000})
	if err != nil {
		fmt.Println("error:", err)
		return true
	}
	out := make(chan string, 1000)
	for i := range 3 {
		id := session.ID(fmt.Sprintf("s%d", i))
		sink := &reporter{id: id, out: out}
		log, err := s.Open(id, sink)
		if err != nil {
			if log, err = s.Create(session.Meta{ID: id}, sink); err != nil {
				fmt.Println("error:", err)
				return true
			}
		}
		go func() {
			for next := log.Head() + 1; ; {
				n := 1 + rand.IntN(30)
				meta := session.Meta{ID: id, Turns: int(next) + n - 1}
				log.Append(&meta, storetest.Mixed(next, n), rand.IntN(5) == 0)
				next += session.Seq(n)
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			}
		}()
	}
	for line := range out {
		fmt.Println(line) // unbuffered: who reads it knows that it was told
	}
	return true
}

type reporter struct {
	id  session.ID
	out chan string
}

func (r *reporter) Written(n session.Seq) { r.out <- fmt.Sprintf("%s %d", r.id, n) }
func (r *reporter) Durable(session.Seq)   {}
func (r *reporter) Failed(error)          {}

// What an editor has been told a crash cannot take back.
func TestKillTakesBackNothingThatWasWritten(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	dir := t.TempDir()
	told := map[session.ID]session.Seq{}
	epoch := ""
	for range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		cmd.Stderr = os.Stderr
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, enough := 0, 20+rand.IntN(400)
		for in := bufio.NewScanner(stdout); in.Scan(); lines++ {
			var id session.ID
			var n session.Seq
			if _, err := fmt.Sscanf(in.Text(), "%s %d", &id, &n); err != nil {
				t.Errorf("child: %s", in.Text())
			}
			told[id] = max(told[id], n)
			if lines == enough {
				cmd.Process.Kill() // and read on: what is in the pipe was told, too
			}
		}
		cmd.Wait()

		s := open(t, dir, still())
		if epoch == "" {
			epoch = s.Epoch()
		}
		if s.Epoch() != epoch {
			t.Error("the epoch changed")
		}
		for id, n := range told {
			got := readAll(t, s, id)
			if session.Seq(len(got)) < n {
				t.Errorf("%s: %d events, told %d", id, len(got), n)
			}
			storetest.Same(t, got, storetest.Mixed(1, len(got)))
			if m, ok := s.Lookup(id); !ok || session.Seq(m.Turns) < n {
				t.Errorf("%s: meta of event %d, told %d", id, m.Turns, n)
			}
		}
		if rand.IntN(2) == 0 {
			crash(s)
		} else if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("told %v", told)
}
