package store

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/store/storetest"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}

func TestMemoryKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Factory {
		m := NewMemory()
		return storetest.Factory{Open: func() session.Store { return m }, Close: func(session.Store) { m.Close() }}
	})
}

func TestStoreKeepsTheContract(t *testing.T) {
	for name, o := range map[string]Options{
		"as it is":             {},
		"everything in bbolt":  {TransferAfter: time.Nanosecond, TransferBytes: 1},
		"tiny segments":        {SegmentBytes: 200, TransferAfter: time.Millisecond},
		"always over the edge": {MaxBacklog: 1, TransferAfter: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Factory {
				dir := t.TempDir()
				return storetest.Factory{
					Open: func() session.Store { return open(t, dir, o) },
					Close: func(s session.Store) {
						if err := s.(*Store).Close(); err != nil {
							t.Error(err)
						}
					},
				}
			})
		})
	}
}

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
