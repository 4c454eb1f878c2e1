package transport

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func addr(s string) netip.Prefix {
	return origin(&net.TCPAddr{IP: net.ParseIP(s)})
}

func TestAnAddressIsWhatOneIsGiven(t *testing.T) {
	for a, b := range map[string]string{
		"10.0.0.1":            "::ffff:10.0.0.1", // the same, as a socket of both families says it
		"2001:db8:1:2::1":     "2001:db8:1:2:ffff::",
		"::1":                 "::2",
		"fe80::1":             "fe80::2",
		"2001:db8:1:2:3:4::9": "2001:db8:1:2::",
	} {
		if addr(a) != addr(b) {
			t.Errorf("%s and %s: %v, %v", a, b, addr(a), addr(b))
		}
	}
	for a, b := range map[string]string{"10.0.0.1": "10.0.0.2", "2001:db8:1:2::1": "2001:db8:1:3::1"} {
		if addr(a) == addr(b) {
			t.Errorf("%s is %s", a, b)
		}
	}
}

// visitor enters a gate and notes whether it was sent away.
type visitor struct {
	stranger
	gone chan struct{}
}

func newVisitor(from string) *visitor {
	v := &visitor{gone: make(chan struct{})}
	v.from = addr(from)
	v.evict = func() { close(v.gone) }
	return v
}

func (v *visitor) evicted() bool {
	select {
	case <-v.gone:
		return true
	default:
		return false
	}
}

func TestWhoIsSilentMakesRoomForNewcomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(100, 3)
		var all []*visitor
		began := time.Now()
		for range 1000 {
			v := newVisitor("10.0.0.1")
			if err := g.enter(t.Context(), &v.stranger); err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		for i, v := range all {
			if want := i < 997; v.evicted() != want {
				t.Fatalf("%d: evicted %v", i, v.evicted())
			}
		}
		// A place is had for graceSilent at least, and for no longer if it is wanted.
		if took := time.Since(began).Round(graceSilent); took < 330*graceSilent || took > 335*graceSilent {
			t.Errorf("took %v", took)
		}
		// Somebody of another address is not concerned.
		before := time.Now()
		v := newVisitor("10.0.0.2")
		if err := g.enter(t.Context(), &v.stranger); err != nil || time.Since(before) != 0 {
			t.Errorf("%v after %v", err, time.Since(before))
		}
	})
}

func TestWhoSpeaksIsNotInTheWayOfWhoIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(100, 2)
		speaks, silent, third := newVisitor("10.0.0.1"), newVisitor("10.0.0.1"), newVisitor("10.0.0.1")
		for _, v := range []*visitor{speaks, silent} {
			if err := g.enter(t.Context(), &v.stranger); err != nil {
				t.Fatal(err)
			}
		}
		g.heard(&speaks.stranger)
		if err := g.enter(t.Context(), &third.stranger); err != nil {
			t.Fatal(err)
		}
		if speaks.evicted() || !silent.evicted() {
			t.Error("the wrong one went")
		}
		g.heard(&third.stranger)
		// Only speakers are left: the eldest has a second in all.
		began := time.Now()
		fourth := newVisitor("10.0.0.1")
		if err := g.enter(t.Context(), &fourth.stranger); err != nil {
			t.Fatal(err)
		}
		if !speaks.evicted() || third.evicted() || time.Since(began) != graceSpoke-graceSilent {
			t.Errorf("after %v", time.Since(began))
		}
	})
}

func TestABusyAddressDoesNotKeepOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(6, 5)
		var crowd []*visitor
		enter := func(from string) *visitor {
			v := newVisitor(from)
			if err := g.enter(t.Context(), &v.stranger); err != nil {
				t.Fatal(err)
			}
			return v
		}
		for range 5 {
			crowd = append(crowd, enter("10.0.0.1"))
		}
		quiet := enter("10.0.0.2")
		other := enter("10.0.0.3")
		if quiet.evicted() || other.evicted() || !crowd[0].evicted() {
			t.Error("the crowd's eldest should have gone")
		}
	})
}

func TestAPlaceThatIsGivenUpIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(10, 1)
		first, second := newVisitor("10.0.0.1"), newVisitor("10.0.0.1")
		if err := g.enter(t.Context(), &first.stranger); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Millisecond)
			g.leave(&first.stranger)
			g.leave(&first.stranger) // twice is once
		}()
		began := time.Now()
		if err := g.enter(t.Context(), &second.stranger); err != nil || time.Since(began) != time.Millisecond || first.evicted() {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		third := newVisitor("10.0.0.1")
		if err := g.enter(ctx, &third.stranger); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestGuessingGetsSlowerForEachAddress(t *testing.T) {
	g := newGate(1, 1)
	a, b := addr("10.0.0.1"), addr("10.0.0.2")
	now := time.Now()
	if wait, ok := g.turn(a, now); wait != 0 || !ok {
		t.Errorf("the first one waits %v", wait)
	}
	var got []time.Duration
	for range 8 {
		got = append(got, g.failed(a, now))
		now = now.Add(time.Minute)
	}
	want := []time.Duration{250, 500, 1000, 2000, 4000, 8000, 8000, 8000}
	for i := range want {
		if got[i] != want[i]*time.Millisecond {
			t.Fatalf("got %v", got)
		}
	}
	if d := g.failed(b, now); d != guessPause {
		t.Errorf("another address pays %v", d)
	}
	// Many at once stand in one line, and a long line is none.
	g.failed(a, now)
	for i, want := range []time.Duration{8 * time.Second} {
		if wait, ok := g.turn(a, now); wait != want || !ok {
			t.Errorf("%d waits %v, %v", i, wait, ok)
		}
	}
	if _, ok := g.turn(a, now); ok {
		t.Error("the line has no end")
	}
	// It is forgiven.
	now = now.Add(guessForget + time.Second)
	if d := g.failed(a, now); d != guessPause {
		t.Errorf("after a while it pays %v", d)
	}
}

func TestGuessersAreNotRememberedWithoutEnd(t *testing.T) {
	g := newGate(1, 1)
	now := time.Now()
	for i := range maxGuessers + 100 {
		g.failed(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32), now.Add(time.Duration(i)*time.Millisecond))
	}
	if len(g.guesses) > maxGuessers {
		t.Errorf("%d are", len(g.guesses))
	}
}

func TestWhatIsSpokenIsKnownByItsFirstBytes(t *testing.T) {
	for said, want := range map[string]speech{
		"":                     unclear,
		"\x16":                 speaksTLS,
		"\x16\x03\x01\x02":     speaksTLS,
		"\x16\x04":             gibberish,
		"{":                    speaksLine,
		`{"hermes":{}`:         speaksLine,
		"\n":                   speaksLine,
		"\xef\xbb\xbf{":        speaksLine,
		"G":                    unclear,
		"GET /":                speaksHTTP,
		"GETTY":                gibberish,
		"P":                    unclear,
		"OPTIONS ":             speaksHTTP,
		"PRI * HTTP/2.0\r\n":   speaksHTTP,
		"SSH-2.0-OpenSSH":      gibberish,
		"\x00":                 gibberish,
		"\x80\x2e\x01\x00\x02": gibberish, // SSL 2
	} {
		if got := sniff([]byte(said)); got != want {
			t.Errorf("%q: %d, want %d", said, got, want)
		}
	}
}

func FuzzSniff(f *testing.F) {
	for _, s := range []string{"", "{", "GET / HTTP/1.1", "\x16\x03\x01", "OPTIONS * "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := sniff(b)
		if len(b) >= sniffed && got == unclear {
			t.Errorf("%q is still unclear", b)
		}
		// What is known of a beginning stays so.
		for i := range b {
			if early := sniff(b[:i]); early != unclear && early != got && (i > 1 || b[0] != 0x16) {
				t.Errorf("%q is %d and %q is %d", b[:i], early, b, got)
			}
		}
	})
}

func TestNoAnswerNamesWhatIsSecret(t *testing.T) {
	for _, r := range []*Refusal{errNoToken, errWrongToken, errWrongCode, errExpired, errTooOften, errInside} {
		if strings.ContainsAny(r.Text, "\n\r") || r.Text == "" {
			t.Errorf("%q is not one line", r.Text)
		}
	}
}
