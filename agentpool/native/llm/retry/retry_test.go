package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
)

// flaky fails with one error after the other, then says "ok".
type flaky struct {
	errs  []error
	shows bool
	calls []time.Time
}

func (f *flaky) Info() llm.Info { return llm.Info{} }

func (f *flaky) Stream(_ context.Context, _ llm.Request, yield func(llm.Event) error) (llm.Stop, error) {
	f.calls = append(f.calls, time.Now())
	_ = yield(llm.Event{Kind: llm.EventUsage})
	if len(f.calls) <= len(f.errs) {
		if f.shows {
			_ = yield(llm.Event{Kind: llm.EventText, Text: "half"})
		}
		return "", f.errs[len(f.calls)-1]
	}
	return llm.StopEnd, yield(llm.Event{Kind: llm.EventText, Text: "ok"})
}

func temporary(after time.Duration) error {
	return &llm.Error{Provider: "p", Status: 529, Temporary: true, RetryAfter: after}
}

func run(ctx context.Context, f *flaky) (string, error) {
	text := ""
	_, err := Model{f}.Stream(ctx, llm.Request{}, func(e llm.Event) error {
		text += e.Text
		return nil
	})
	return text, err
}

func TestTemporaryFailuresAreTriedAgainWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{errs: []error{temporary(0), temporary(0), temporary(0)}}
		if text, err := run(t.Context(), f); err != nil || text != "ok" || len(f.calls) != 4 {
			t.Fatal(text, err, len(f.calls))
		}
		want := First
		for i := 1; i < 4; i++ {
			if pause := f.calls[i].Sub(f.calls[i-1]); pause > want || pause < want*3/4 {
				t.Errorf("pause %d is %v, want about %v", i, pause, want)
			}
			want *= 2
		}
	})
}

func TestTheTimeAProviderAsksForIsWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{errs: []error{temporary(20 * time.Second)}}
		if _, err := run(t.Context(), f); err != nil || f.calls[1].Sub(f.calls[0]) != 20*time.Second {
			t.Error(err, f.calls)
		}
		f = &flaky{errs: []error{temporary(Patience + 1)}}
		if _, err := run(t.Context(), f); err == nil || len(f.calls) != 1 {
			t.Error("a longer time is waited")
		}
	})
}

func TestWhatWouldFailAgainOrBeShownTwiceIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, f := range map[string]*flaky{
			"refused":       {errs: []error{&llm.Error{Provider: "p", Status: 401}}},
			"shown":         {errs: []error{temporary(0)}, shows: true},
			"not a model's": {errs: []error{errors.New("x")}},
		} {
			if _, err := run(t.Context(), f); err == nil || len(f.calls) != 1 {
				t.Error(name, err, len(f.calls))
			}
		}
		f := &flaky{}
		for range 2 * Attempts {
			f.errs = append(f.errs, temporary(0))
		}
		if _, err := run(t.Context(), f); err == nil || len(f.calls) != Attempts {
			t.Error(err, len(f.calls))
		}
	})
}

func TestACancelEndsAPauseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := &flaky{errs: []error{temporary(30 * time.Second)}}
		start := time.Now()
		time.AfterFunc(time.Second, cancel)
		if _, err := run(ctx, f); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second || len(f.calls) != 1 {
			t.Error(err, time.Since(start))
		}
	})
}
