package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written "64MiB", "1.5GiB", "500kB" or "4096".
type Size int64

// Binary multiples of a byte.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// sizeUnits are tried in this order, so a unit stands before those it ends in.
var sizeUnits = [...]struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"B", 1}, {"", 1},
}

// UnmarshalText reads a number with an optional unit.
func (s *Size) UnmarshalText(text []byte) error {
	in := strings.TrimSpace(string(text))
	for _, u := range sizeUnits {
		number, ok := strings.CutSuffix(in, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		// The comparison is also false for NaN.
		if err != nil || !(n >= 0) || n*u.bytes > math.MaxInt64/2 {
			break
		}
		*s = Size(math.Round(n * u.bytes))
		return nil
	}
	return fmt.Errorf("%q is not a size: write a number of bytes, or a number with KiB, MiB or GiB, as in \"64MiB\"", in)
}

// String writes the size in the largest binary unit that divides it.
func (s Size) String() string {
	for _, u := range []struct {
		size   Size
		suffix string
	}{{GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Bytes is the size as an int, for buffers.
func (s Size) Bytes() int {
	if int64(s) > math.MaxInt {
		return math.MaxInt
	}
	return int(s)
}

// Duration is a length of time, written "60s", "1h30m" or "0".
type Duration time.Duration

const (
	second = Duration(time.Second)
	minute = Duration(time.Minute)
)

// UnmarshalText reads what time.ParseDuration reads; a number without a unit,
// 0 apart, is refused rather than guessed.
func (d *Duration) UnmarshalText(text []byte) error {
	in := strings.TrimSpace(string(text))
	v, err := time.ParseDuration(in)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration: write a number with ms, s, m or h, as in \"60s\" or \"1h30m\"", in)
	}
	*d = Duration(v)
	return nil
}

// Std is the duration in the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes the duration as the standard library does.
func (d Duration) String() string { return time.Duration(d).String() }
