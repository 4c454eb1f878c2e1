package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/kardianos/service"

	hermesd "github.com/hermesd/hermesd/daemon/service"
)

// startWait is how long the service control manager is kept waiting for a start.
// It gives up after half a minute.
const startWait = 20 * time.Second

// underServiceControl runs the daemon: under the service control manager if that
// started the process, else as it is.
func underServiceControl(_ bool, run func(ctx context.Context, ready func()) error) error {
	if service.Interactive() {
		return run(context.Background(), func() {})
	}
	p := &program{run: run, ended: make(chan struct{})}
	s, err := service.New(p, &service.Config{Name: hermesd.Name})
	if err != nil {
		return err
	}
	return s.Run()
}

// program is the daemon as the service control manager sees it.
type program struct {
	run    func(ctx context.Context, ready func()) error
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // when ended is closed
}

// Start implements service.Interface. It returns when the daemon serves or has
// failed, or takes so long that the manager would lose patience.
func (p *program) Start(s service.Service) error {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	ready := make(chan struct{})
	var once sync.Once
	go func() { // ends with the daemon; Stop waits for it
		p.err = p.run(ctx, func() { once.Do(func() { close(ready) }) })
		close(p.ended)
	}()
	select {
	case <-ready:
	case <-p.ended:
		if errors.Is(p.err, errMisconfigured) {
			// A service that says that it has stopped is not started again.
			return p.err
		}
		os.Exit(exitFailed) // one that dies is, after the pause of its recovery actions
	case <-time.After(startWait):
	}
	go func() { // ends with the process
		<-p.ended
		if ctx.Err() == nil && p.err == nil && s.Stop() == nil {
			return // asked to end by `hermesd stop`
		}
		if ctx.Err() == nil {
			os.Exit(exitFailed)
		}
	}()
	return nil
}

// Stop implements service.Interface.
func (p *program) Stop(service.Service) error {
	p.cancel()
	<-p.ended
	return p.err
}
