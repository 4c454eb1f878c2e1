package tool

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// changes are edits of files that are made together or not at all.
type changes []change

// at is the index of the change of a file, -1 if there is none.
func (cs changes) at(p place) int {
	for i, c := range cs {
		if c.real == p.real {
			return i
		}
	}
	return -1
}

func (cs changes) labels(most int) string {
	var names []string
	for i, c := range cs {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(cs)-most))
			break
		}
		names = append(names, oneLine(c.label, 100))
	}
	return strings.Join(names, ", ")
}

func (cs changes) need(e *Env) Need {
	n := cs[0].need(e)
	for _, c := range cs[1:] {
		more := c.need(e)
		n.Outside = n.Outside || more.Outside
		n.Grants = append(n.Grants, more.Grants...)
		if n.Sensitive == "" {
			n.Sensitive = more.Sensitive
		}
	}
	if len(cs) > 1 {
		n.Scope = "edits of " + cs.labels(5) + " in this session"
	}
	return n
}

// changing is the action of changes.
func (e *Env) changing(cs changes, verb string, notes []string) *Action {
	a := &Action{Title: verb + cs.labels(3), Need: cs.need(e)}
	if len(cs) > 1 {
		a.Title = fmt.Sprintf("%s%s: %s", verb, plural(len(cs), "file"), cs.labels(3))
	}
	for _, c := range cs {
		a.Locations = append(a.Locations, Location{Path: c.shown, Line: c.line()})
		a.Content = append(a.Content, c.content()...)
	}
	a.Run = func(ctx context.Context, _ func([]Content)) (Result, error) {
		if err := cs.apply(ctx, e); err != nil {
			return Result{}, err
		}
		var lines []string
		files := make([]map[string]any, len(cs))
		for i, c := range cs {
			lines = append(lines, fmt.Sprintf("%s is written, %d bytes.", c.label, len(c.new)))
			files[i] = map[string]any{"path": c.shown, "bytes": len(c.new), "created": c.old == nil}
		}
		var raw any = files[0]
		if len(cs) > 1 {
			raw = map[string]any{"files": files}
		}
		return Result{Text: strings.Join(append(lines, notes...), "\n"), Raw: raw}, nil
	}
	return a
}

// apply makes all changes, or none: every file is looked at before the first is
// written, and what was written is taken back if a later one fails.
func (cs changes) apply(ctx context.Context, e *Env) error {
	if len(cs) > 1 {
		for _, c := range cs {
			if err := c.check(ctx, e); err != nil {
				return err
			}
		}
	}
	for i, c := range cs {
		err := c.apply(ctx, e)
		if err == nil {
			continue
		}
		if i == 0 {
			return err
		}
		if left := cs[:i].takeBack(context.WithoutCancel(ctx), e); len(left) > 0 {
			return fmt.Errorf("%w; before that %s had been changed, and that could not be taken back", err, left.labels(10))
		}
		return fmt.Errorf("%w; what had been written before that was taken back, nothing is changed", err)
	}
	return nil
}

// takeBack undoes changes that were made, last first, and returns those it
// could not undo.
func (cs changes) takeBack(ctx context.Context, e *Env) (left changes) {
	for i := len(cs) - 1; i >= 0; i-- {
		c := cs[i]
		back := change{place: c.place, old: &c.new}
		var err error
		if c.old != nil {
			back.new = *c.old
			err = back.apply(ctx, e)
		} else if err = back.check(ctx, e); err == nil {
			err = os.Remove(c.real)
		}
		if err != nil {
			left = append(left, c)
		}
	}
	return left
}
