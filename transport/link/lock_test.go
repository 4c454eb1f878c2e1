package link

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestOnlyOneHasTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	a, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second one: %v", err)
	}
	if err := a.Sign(4711); err != nil {
		t.Fatal(err)
	}
	if got := Holder(path); got != 4711 {
		t.Errorf("held by %d", got)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := Holder(path); got != 0 {
		t.Errorf("given up, and held by %d", got)
	}
	b, err := TryLock(path)
	if err != nil {
		t.Fatalf("after it was given up: %v", err)
	}
	b.Close()
}

func TestWaitLockGetsTheLockOnceItIsFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	a, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		b, err := WaitLock(t.Context(), path)
		if err == nil {
			defer b.Close()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("did not wait: %v", err)
	default:
	}
	a.Close()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestWaitLockThatIsGivenUpLeavesTheLockFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	a, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := WaitLock(ctx, path); !errors.Is(err, cause) {
		t.Fatalf("got %v", err)
	}
	a.Close()
	// The one that gave up takes it and gives it back; a waiter gets it.
	b, err := WaitLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
}

func TestALockWhoseFileWasReplacedIsNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	old, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *Lock)
	go func() {
		l, err := WaitLock(t.Context(), path)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	awaitWaiter(t, old.f) // on the file that is about to lose its name
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	old.Close()
	select {
	case <-got:
		t.Error("two hold the lock of one name")
	case <-time.After(20 * time.Millisecond): // a wrong one would be there at once
	}
	now.Close()
	(<-got).Close()
}

func TestHolderOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	if got := Holder(path); got != 0 {
		t.Errorf("no file: %d", got)
	}
	for _, s := range []string{"", "x", "-3", "99999999999999999999"} {
		os.WriteFile(path, []byte(s), 0o600)
		if got := Holder(path); got != 0 {
			t.Errorf("%q: %d", s, got)
		}
	}
}
