//go:build unix

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store/storetest"
)

const fullDir = "HERMESD_STORE_TEST_FULL"

// onFullDisk is a process whose files cannot grow for a while: writes to the
// journal, the space that is reserved for it and bbolt's own writes really fail.
func onFullDisk(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	room := func(bytes uint64) error {
		l := limit
		if bytes > 0 {
			l.Cur = bytes
		}
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
	}
	s, err := Open(dir, Options{TransferAfter: time.Millisecond, TransferBytes: 10000, MaxBacklog: 100000})
	if err != nil {
		return err
	}
	sink := storetest.NewSink()
	log, err := s.Create(session.Meta{ID: "s"}, sink)
	if err != nil {
		return err
	}
	next := session.Seq(1)
	appendSome := func() {
		log.Append(nil, storetest.Mixed(next, 100), true)
		next += 100
	}
	until := func(what string, ok func() bool) error {
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("it is never so: %s", what)
			}
		}
		return nil
	}
	for range 3 { // the disk fills up three times
		appendSome()
		if err := until("durable", func() bool { _, durable := sink.Seen(); return durable == next-1 }); err != nil {
			return err
		}
		if err := s.moveOnce(); err != nil {
			return err
		}
		names, err := listSegments(s.journal)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(segmentName(s.journal, names[len(names)-1]))
		if err != nil {
			return err
		}
		end := uint64(len(bytes.TrimRight(data, "\x00")))
		s.moving.Lock() // so that something is left to be moved
		if err := room(end + 30000); err != nil {
			return err
		}
		for sink.Err() == nil {
			appendSome()
			time.Sleep(time.Millisecond)
		}
		if err := sink.Err(); !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("failed with %w", err)
		}
		if s.Stats().Failing == "" {
			return errors.New("nobody is told why nothing is stored")
		}
		if err := room(1); err != nil {
			return err
		}
		s.moving.Unlock()
		if err := s.moveOnce(); !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("the transfer to bbolt: %w", err)
		}
		if err := s.Backup(context.Background(), dir+".backup", true); err == nil {
			return errors.New("a backup was made without space")
		}
		// All that was told is still there to read.
		written, _ := sink.Seen()
		for at := session.Seq(1); at <= written; {
			page, err := log.Read(at, 1<<20)
			if err != nil || len(page) == 0 {
				return fmt.Errorf("reading at %d of %d: %d records, %w", at, written, len(page), err)
			}
			at = page[len(page)-1].Last + 1
		}
		if err := room(0); err != nil {
			return err
		}
		if err := until("working again", func() bool { _, durable := sink.Seen(); return sink.Err() == nil && durable == next-1 }); err != nil {
			return err
		}
		if err := s.moveOnce(); err != nil {
			return err
		}
	}
	fmt.Println(next - 1)
	if len(s.Damage()) > 0 {
		return fmt.Errorf("a full disk was taken for damage: %+v", s.Damage())
	}
	return s.Close()
}

func TestADiskThatIsReallyFullIsToldAndNothingIsLost(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fullDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var n int
	if _, err := fmt.Sscan(string(out), &n); err != nil || n < 600 {
		t.Fatalf("%s: %v", out, err)
	}
	s := open(t, dir, still())
	defer s.Close()
	got := readAll(t, s, "s")
	if len(got) != n {
		t.Fatalf("%d events of %d", len(got), n)
	}
	for i := 0; i < n; i += 100 {
		storetest.Same(t, got[i:i+100], storetest.Mixed(session.Seq(i+1), 100))
	}
}
