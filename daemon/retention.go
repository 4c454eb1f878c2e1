package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermesd/hermesd/daemon/session"
)

// Retention says which sessions are removed by themselves. The zero value keeps
// all of them.
type Retention struct {
	MaxAge  time.Duration // since something happened in them last; 0: any
	MaxSize int64         // bytes that all sessions may take on the disk; 0: any number
}

// retentionEvery is how often it is looked whether sessions are to be removed.
const retentionEvery = time.Hour

// Retain removes what is beyond the retention, now and every hour, until ctx
// ends. A session that is in memory or pinned is never removed.
func (d *Daemon) Retain(ctx context.Context) {
	if d.cfg.Retention == (Retention{}) {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(retentionEvery)
	defer tick.Stop()
	for {
		d.retain(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// retain removes what is beyond the retention: first what is too old, then, for
// space, what was not used for the longest time.
func (d *Daemon) retain(ctx context.Context) {
	r := d.cfg.Retention
	now := time.Now()
	var may []session.Meta // oldest first
	for _, m := range slices.Backward(d.store.List()) {
		if !m.Pinned && d.reg.peek(m.ID) == nil {
			may = append(may, m)
		}
	}
	removed := 0
	if r.MaxAge > 0 {
		for len(may) > 0 && now.Sub(may[0].Updated) > r.MaxAge && ctx.Err() == nil {
			removed += d.discard(ctx, may[0], "too old")
			may = may[1:]
		}
	}
	if r.MaxSize > 0 && d.keeper != nil {
		used, err := d.keeper.Used()
		if err != nil {
			d.cfg.Log.Warn().Err(err).Msg("how much the sessions take is not known: none is removed for space")
			return
		}
		for len(may) > 0 && used > r.MaxSize && ctx.Err() == nil {
			weight, err := d.keeper.Weigh(may[0].ID)
			if err != nil {
				d.cfg.Log.Warn().Err(err).Str("session", string(may[0].ID)).Msg("how much a session takes is not known: it is kept")
			} else if n := d.discard(ctx, may[0], "for space"); n > 0 {
				removed += n
				used -= weight
			}
			may = may[1:]
		}
		if used > r.MaxSize && ctx.Err() == nil {
			d.cfg.Log.Warn().Int64("bytes", used).Int64("allowed", r.MaxSize).Msg("the sessions take more than store.max_size: what is left of them is in use or pinned")
		}
	}
	if removed > 0 {
		d.cfg.Log.Info().Int("sessions", removed).Msg("sessions were removed, as the configuration says")
	}
	d.removed.Add(uint64(removed))
}

// discard removes a session that nobody has in memory, and says how many that
// were.
func (d *Daemon) discard(ctx context.Context, m session.Meta, why string) int {
	gone, err := d.reg.discard(ctx, m.ID)
	switch {
	case err != nil:
		if !errors.Is(err, session.ErrInUse) && ctx.Err() == nil {
			d.cfg.Log.Warn().Err(err).Str("session", string(m.ID)).Msg("a session could not be removed")
		}
		return 0
	case !gone:
		return 0
	}
	d.cfg.Log.Info().Str("audit", "removed").Str("session", string(m.ID)).Str("why", why).Time("used", m.Updated).Msg("a session was removed")
	return 1
}

// discard deletes a session for good unless it is in memory, or pinned by now.
func (r *registry) discard(ctx context.Context, id session.ID) (gone bool, err error) {
	r.mu.Lock()
	m, ok := r.store.Lookup(id)
	if !ok || m.Pinned || r.live[id] != nil || r.stopped {
		r.mu.Unlock()
		return false, nil
	}
	r.leaving[id] = true // nobody brings it into memory meanwhile
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.leaving, id)
		r.mu.Unlock()
	}()
	err = r.store.Delete(ctx, id)
	return err == nil, err
}
