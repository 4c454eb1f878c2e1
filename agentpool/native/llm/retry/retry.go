// Package retry answers: what becomes of a model call that failed and may
// succeed a little later? It is made again, after a pause that grows, or after
// the time the provider asked for; unless something of the answer was shown
// already, which would then be shown twice.
package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/hermesd/hermesd/agentpool/native/llm"
)

// The pauses. Patience is the longest time a provider may ask for; if it asks
// for more, the user hears of it at once.
const (
	Attempts = 6
	First    = 500 * time.Millisecond
	Longest  = 8 * time.Second
	Patience = time.Minute
)

// Model makes calls of the model inside it again when they fail for a while.
type Model struct{ llm.Model }

// Stream implements llm.Model. A cancelled ctx ends a pause at once.
func (m Model) Stream(ctx context.Context, req llm.Request, yield func(llm.Event) error) (llm.Stop, error) {
	pause := First
	for attempt := 1; ; attempt++ {
		shown := false
		stop, err := m.Model.Stream(ctx, req, func(e llm.Event) error {
			if e.Kind != llm.EventUsage {
				shown = true
			}
			return yield(e)
		})
		var fault *llm.Error
		if err == nil || shown || attempt == Attempts || ctx.Err() != nil || !errors.As(err, &fault) || !fault.Temporary || fault.RetryAfter > Patience {
			return stop, err
		}
		wait := fault.RetryAfter
		if wait == 0 {
			wait = pause - rand.N(pause/4)
		}
		pause = min(2*pause, Longest)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return stop, ctx.Err()
		}
	}
}
