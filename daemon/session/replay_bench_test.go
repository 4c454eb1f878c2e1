package session

import (
	"math/rand/v2"
	"testing"

	"github.com/hermesd/hermesd/transport/acp"
)

// BenchmarkReplay loads a long session: about 36 MB of log for 8 MiB of replay.
func BenchmarkReplay(b *testing.B) {
	records := bulk(2000, 6_000).records()
	n := 0
	for _, r := range records {
		n += len(r.Data)
	}
	b.SetBytes(int64(n))
	for b.Loop() {
		r := NewReplay("s", acp.ClientCaps{}, 0)
		for _, rec := range records {
			r.Add(rec)
		}
		r.Finish()
	}
}

// BenchmarkReplayChunks loads a log of small chunks that nothing has joined.
func BenchmarkReplayChunks(b *testing.B) {
	p := randomPast(rand.New(rand.NewPCG(1, 1)), 3000)
	records := p.records()
	n := 0
	for _, r := range records {
		n += len(r.Data)
	}
	b.SetBytes(int64(n))
	for b.Loop() {
		r := NewReplay("s", acp.ClientCaps{}, 0)
		for _, rec := range records {
			r.Add(rec)
		}
		r.Finish()
	}
}
