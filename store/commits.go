package store

import (
	"os"
	"time"
)

// Commits says how long syncs of the journal took, since Open: the time that an
// answer waits for the disk.
type Commits struct {
	// Counts[i] of them took no longer than CommitBounds()[i]; the last one counts
	// all that took longer than any bound.
	Counts  [len(commitBounds{}) + 1]uint64
	Sum     time.Duration
	Slowest time.Duration
}

type commitBounds [13]time.Duration

// CommitBounds are the upper bounds by which Commits counts, ascending.
func CommitBounds() []time.Duration {
	const us, ms = time.Microsecond, time.Millisecond
	return []time.Duration{100 * us, 250 * us, 500 * us, ms, 2500 * us, 5 * ms, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms, time.Second, 5 * time.Second}
}

func (c *Commits) add(d time.Duration) {
	i := 0
	for _, bound := range CommitBounds() {
		if d <= bound {
			break
		}
		i++
	}
	c.Counts[i]++
	c.Sum += d
	c.Slowest = max(c.Slowest, d)
}

// Size is how many bytes the store takes on the disk: the database, and the
// journal with the space it has reserved.
func (s *Store) Size() (database, journal int64) { return sizeOf(s.dir) }

func sizeOf(dir string) (database, journal int64) {
	if info, err := os.Stat(dbName(dir)); err == nil {
		database = info.Size()
	}
	entries, err := os.ReadDir(journalName(dir))
	if err != nil {
		return database, 0
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			journal += info.Size()
		}
	}
	return database, journal
}
