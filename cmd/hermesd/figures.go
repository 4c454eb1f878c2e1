package main

import (
	"context"
	"net"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/daemon"
	"github.com/hermesd/hermesd/daemon/metrics"
	"github.com/hermesd/hermesd/store"
)

// diskFigures says in the daemon's words how the store is doing.
func diskFigures(st *store.Store) daemon.Disk {
	s := st.Stats()
	d := daemon.Disk{
		BacklogBytes: s.Backlog, Events: s.Events, Failing: s.Failing,
		Bounds: store.CommitBounds(), Counts: s.Commits.Counts[:], Sum: s.Commits.Sum, Slowest: s.Commits.Slowest,
	}
	d.DatabaseBytes, d.JournalBytes = st.Size()
	for _, x := range st.Damage() {
		damage := daemon.Damage{At: x.At, File: x.File, Sessions: []daemon.DamagedSession{}}
		for _, h := range x.Hurt {
			damage.Sessions = append(damage.Sessions, daemon.DamagedSession{ID: h.Session, Lost: h.Lost})
		}
		d.Damage = append(d.Damage, damage)
	}
	return d
}

// openFigures is where a program may read the daemon's figures.
type openFigures struct {
	ln       net.Listener // nil: nowhere
	hereOnly bool
}

// openMetrics listens where the configuration says, and notes in about where that
// is. That it cannot is no reason to keep editors from their sessions: it is
// logged, and status and doctor tell of it.
func openMetrics(ctx context.Context, o serveOptions, log zerolog.Logger, about map[string]string) openFigures {
	network, address, err := o.Config.Metrics.Address()
	if network == "" && err == nil {
		return openFigures{}
	}
	var ln net.Listener
	if err == nil {
		ln, err = metrics.Listen(ctx, network, address, o.Places)
	}
	if err != nil {
		about["metricsError"] = err.Error()
		log.Error().Err(err).Msg("the figures cannot be read by a program")
		return openFigures{}
	}
	at := ln.Addr().String()
	if network == "unix" {
		at = "unix:" + at
	}
	about["metrics"] = at
	log.Info().Str("address", at).Msg("metrics are served")
	return openFigures{ln, network == "tcp" && !o.Config.Metrics.Anywhere}
}

// serve answers until ctx ends.
func (f openFigures) serve(ctx context.Context, version string, d *daemon.Daemon, log zerolog.Logger) {
	if f.ln == nil {
		return
	}
	if err := metrics.Serve(ctx, f.ln, metrics.Handler(version, d.Figures, f.hereOnly)); err != nil {
		log.Error().Err(err).Msg("the figures cannot be read by a program any more")
	}
}

// close is for a daemon that did not get to serve.
func (f openFigures) close() {
	if f.ln != nil {
		f.ln.Close()
	}
}
