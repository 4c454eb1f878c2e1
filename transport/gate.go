package transport

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// gate bounds what those can cost who have not shown yet that they may come in:
// how many there are at once, and how fast one of them can guess.
//
// When there are too many, somebody has to go, and it is never a newcomer: who
// is in the way is who has been there longest of the address that has most of
// them, first of those that have not said a single byte. So neither a thousand
// connections that say nothing nor one busy address keep others out.
type gate struct {
	max, maxPer int // strangers at once; of one address

	mu        sync.Mutex
	strangers []*stranger // in order of arrival
	freed     chan struct{}
	guesses   map[netip.Prefix]*guesser
}

// stranger is a connection that has not shown a token.
type stranger struct {
	from  netip.Prefix
	since time.Time
	spoke bool   // it has said something
	evict func() // closes it; does not block
}

// guesser is an address that has shown what is no token.
type guesser struct {
	failed int
	last   time.Time // when it failed
	next   time.Time // when its next invitation is looked at
}

const (
	maxStrangers    = 256
	maxStrangersPer = 64
	// A stranger may stay for so long even if others want his place. The first
	// line of a client follows at once.
	graceSilent = 100 * time.Millisecond
	graceSpoke  = time.Second

	// The first wrong guess costs an address guessPause, each further one twice
	// as much, up to guessPauseMax; after guessForget it is forgiven.
	guessPause    = 250 * time.Millisecond
	guessPauseMax = 8 * time.Second
	guessForget   = 10 * time.Minute
	maxGuessers   = 4096
)

func newGate(max, maxPer int) *gate {
	return &gate{max: max, maxPer: maxPer, freed: make(chan struct{}, 1), guesses: make(map[netip.Prefix]*guesser)}
}

// origin is what counts as one address: of IPv6 a network of 64 bits, which is
// the least that anybody is given.
func origin(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}

// enter lets a stranger in as soon as there is room for him, or until ctx ends.
func (g *gate) enter(ctx context.Context, s *stranger) error {
	for {
		wait, victim := g.try(s, time.Now())
		if victim != nil {
			victim.evict()
			continue
		}
		if wait == 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-g.freed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// try lets s in (0, nil), or says whom to send away, or how long to wait.
func (g *gate) try(s *stranger, now time.Time) (time.Duration, *stranger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count := make(map[netip.Prefix]int)
	for _, x := range g.strangers {
		count[x.from]++
	}
	crowd := s.from
	switch {
	case count[s.from] >= g.maxPer:
	case len(g.strangers) >= g.max:
		for from, n := range count {
			if n > count[crowd] {
				crowd = from
			}
		}
	default:
		s.since = now
		g.strangers = append(g.strangers, s)
		return 0, nil
	}
	wait := graceSpoke
	for _, silent := range []bool{true, false} {
		for i, x := range g.strangers {
			if x.from != crowd || x.spoke == silent {
				continue
			}
			grace := graceSpoke
			if silent {
				grace = graceSilent
			}
			if left := grace - now.Sub(x.since); left > 0 {
				wait = min(wait, left)
				break // those behind it came later
			}
			g.strangers = slices.Delete(g.strangers, i, i+1)
			return 0, x
		}
	}
	return wait, nil
}

// heard notes that a stranger has said something.
func (g *gate) heard(s *stranger) {
	g.mu.Lock()
	s.spoke = true
	g.mu.Unlock()
}

// leave makes room: the stranger is gone or is none any more.
func (g *gate) leave(s *stranger) {
	g.mu.Lock()
	i := slices.Index(g.strangers, s)
	if i >= 0 {
		g.strangers = slices.Delete(g.strangers, i, i+1)
	}
	g.mu.Unlock()
	if i >= 0 {
		select {
		case g.freed <- struct{}{}:
		default:
		}
	}
}

// turn says how long an address has to wait before its next invitation is looked
// at, false if so many wait already that it is not. Tokens do not wait: nobody guesses 260 bits, and who has one must not be
// kept out by somebody who guesses from the same address.
func (g *gate) turn(from netip.Prefix, now time.Time) (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.guesses[from]
	if x == nil || !x.next.After(now) {
		if x != nil {
			x.next = now.Add(pause(x.failed))
		}
		return 0, true
	}
	wait := x.next.Sub(now)
	if wait > guessPauseMax {
		return 0, false
	}
	x.next = x.next.Add(pause(x.failed))
	return wait, true
}

// failed notes a wrong guess and says how long its answer is held back.
func (g *gate) failed(from netip.Prefix, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.guesses[from]
	if x == nil || now.Sub(x.last) > guessForget {
		if x == nil && len(g.guesses) >= maxGuessers {
			g.forget(now)
		}
		x = &guesser{next: now}
		g.guesses[from] = x
	}
	x.failed++
	x.last = now
	d := pause(x.failed)
	if next := now.Add(d); next.After(x.next) {
		x.next = next
	}
	return d
}

// forget makes room among the guessers: those whose time is over, else the one
// that has been quiet longest.
func (g *gate) forget(now time.Time) {
	var oldest netip.Prefix
	var last time.Time
	for from, x := range g.guesses {
		if now.Sub(x.last) > guessForget {
			delete(g.guesses, from)
		} else if last.IsZero() || x.last.Before(last) {
			oldest, last = from, x.last
		}
	}
	if len(g.guesses) >= maxGuessers {
		delete(g.guesses, oldest)
	}
}

func pause(failed int) time.Duration {
	d := guessPause << min(failed-1, 10)
	return min(d, guessPauseMax)
}
