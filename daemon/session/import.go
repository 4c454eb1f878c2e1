package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// Import stores a session that was exported, under meta.ID, and returns its last
// event when it is durable. next gives its records in order and ends with io.EOF;
// an error of it, or a record that does not fit, leaves nothing behind, and is
// what comes back.
//
// Seqs are kept. Who caused the events is left out, so that no connection is
// answered. What is said in the file of what is permitted is not believed: at
// its end the session gets no MCP servers, no further folders, and the settings
// that a new session has.
func Import(ctx context.Context, store Store, meta Meta, by Origin, next func() (Record, error)) (Seq, error) {
	sink := &importSink{wake: make(chan struct{}, 1)}
	log, err := store.Create(meta, sink)
	if err != nil {
		return 0, err
	}
	i := importer{log: log, sink: sink, meta: meta}
	err = i.all(ctx, by, next)
	if cerr := log.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return 0, errors.Join(err, store.Delete(context.WithoutCancel(ctx), meta.ID))
	}
	return i.state.Head, nil
}

type importer struct {
	log   Log
	sink  *importSink
	meta  Meta
	state State
	at    int64 // time of the last event
	page  []Event
	size  int
}

func (i *importer) all(ctx context.Context, by Origin, next func() (Record, error)) error {
	for {
		r, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := i.add(r, by); err != nil {
			return err
		}
		if i.size >= pageBytes {
			if err := i.write(ctx, false); err != nil {
				return err
			}
		}
	}
	if i.state.Head == 0 {
		return errors.New("the session has no events")
	}
	updated := i.meta.Updated
	for _, e := range []Event{
		{Kind: KindSettingsChanged, Data: encode(SettingsChanged{Origin: by, Mode: true, Options: true})},
		{Kind: KindRootsChanged, Data: encode(RootsChanged{Origin: by})},
	} {
		e.Seq, e.Time = i.state.Head+1, i.at
		if err := i.state.Apply(e.Record()); err != nil {
			return err
		}
		i.page = append(i.page, e)
	}
	i.meta.Title, i.meta.Turns = i.state.Meta.Title, i.state.Meta.Turns
	i.meta.Dirs, i.meta.MCPServers, i.meta.Updated = nil, nil, updated
	return i.write(ctx, true)
}

// add takes the next record. An error says why it does not fit.
func (i *importer) add(r Record, by Origin) error {
	switch {
	case r.First != i.state.Head+1:
		return fmt.Errorf("event %d where event %d belongs", r.First, i.state.Head+1)
	case (r.Kind == KindCreated) != (r.First == 1):
		return errors.New("a session begins with the event created, and has it once")
	case r.Kind == KindDeleted:
		return errors.New("the session was deleted")
	}
	if r.Kind == KindCreated {
		f, err := decode[Created](r.Data)
		if err != nil {
			return err
		}
		i.meta.Title = f.Meta.Title
		r.Data = encode(Created{Origin: by, Meta: i.meta, Settings: f.Settings})
	}
	if err := i.state.Apply(r); err != nil {
		return err
	}
	i.at = r.Time
	for _, e := range r.Events() {
		if e.Kind != KindCreated {
			data, err := anonymous(e)
			if err != nil {
				return fmt.Errorf("event %d: %w", e.Seq, err)
			}
			e.Data = data
		}
		i.page = append(i.page, e)
		i.size += len(e.Data) + 64
	}
	return nil
}

// write hands over what was collected and waits until it is written.
func (i *importer) write(ctx context.Context, last bool) error {
	var meta *Meta
	if last {
		meta = &i.meta
	}
	i.log.Append(meta, i.page, last)
	i.page, i.size = nil, 0
	return i.sink.wait(ctx, i.state.Head, last)
}

// importSink waits for what one goroutine has appended.
type importSink struct {
	written, durable atomic.Uint64
	failed           atomic.Pointer[storeFailure]
	wake             chan struct{}
}

func (k *importSink) Written(n Seq) { raise(&k.written, n); k.nudge() }
func (k *importSink) Durable(n Seq) { raise(&k.written, n); raise(&k.durable, n); k.nudge() }

func (k *importSink) Failed(err error) {
	k.failed.Store(nil)
	if err != nil {
		k.failed.Store(&storeFailure{err})
	}
	k.nudge()
}

func (k *importSink) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *importSink) wait(ctx context.Context, n Seq, durable bool) error {
	for {
		at := &k.written
		if durable {
			at = &k.durable
		}
		if Seq(at.Load()) >= n {
			return nil
		}
		if f := k.failed.Load(); f != nil {
			return &Error{Code: CodeStoreReadOnly, Message: fmt.Sprintf("the session store cannot write (%v): free some space, then try again", f.err)}
		}
		select {
		case <-k.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
