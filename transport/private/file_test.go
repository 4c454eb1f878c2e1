package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words is a file of words; reads counts how often it was read.
func words(path string, reads *int) *File[[]string] {
	return &File[[]string]{
		Path: path, Max: 100, Reading: "reading: ", Changing: "changing: ",
		Parse: func(text []byte) ([]string, error) {
			if reads != nil {
				*reads++
			}
			if len(text) > 100 {
				return []string{"too", "much"}, fmt.Errorf("%d bytes are too much", len(text))
			}
			return strings.Fields(string(text)), nil
		},
		Exposed: func(mode fs.FileMode) error { return fmt.Errorf("exposed: %#o", mode) },
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFileIsReadAgainOnlyWhenItHasChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	reads := 0
	f := words(path, &reads)
	now := func(what, want string, wantReads int) {
		t.Helper()
		for range 3 {
			got, err := f.Current()
			if err != nil || strings.Join(got, " ") != want || reads != wantReads {
				t.Errorf("%s: %q, %v after %d reads; want %q after %d", what, got, err, reads, want, wantReads)
			}
		}
	}
	now("not there", "", 0)
	write(t, path, "a b")
	now("written", "a b", 1)
	if err := Replace(path, []byte("c d")); err != nil {
		t.Fatal(err)
	}
	now("replaced", "c d", 2)
	write(t, path, "e f")
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	now("written to", "e f", 3)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now("gone", "", 3)
	write(t, path, "g")
	now("there again", "g", 4)
}

func TestWhatIsWrongWithAFileIsSaidInTheOwnersWords(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	f := words(path, nil)
	if _, err := f.Load(); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "reading: open ") {
		t.Errorf("not there: %v", err)
	}
	write(t, path, strings.Repeat("x", 1000))
	bad := func(what, want string) {
		t.Helper()
		before, _ := os.ReadFile(path)
		a, err1 := f.Current()
		b, err2 := f.Load()
		err3 := f.Change(func([]string) ([]byte, error) { return []byte("new"), nil })
		for _, err := range []error{err1, err2, err3} {
			if err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", what, err, want)
			}
		}
		if after, _ := os.ReadFile(path); a != nil || b != nil || string(after) != string(before) {
			t.Errorf("%s: %q, %q, and it was changed to %q", what, a, b, after)
		}
	}
	bad("too long", "101 bytes are too much")
	if runtime.GOOS != "windows" {
		write(t, path, "a")
		if got, err := f.Current(); err != nil || len(got) != 1 {
			t.Errorf("%q %v", got, err)
		}
		for _, mode := range []fs.FileMode{0o640, 0o602, 0o601} { // also of what has been read already
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			bad("open to others", fmt.Sprintf("exposed: %#o", mode))
		}
	}
	gone := words(filepath.Join(dir, "gone", "f"), nil)
	if err := gone.Change(func([]string) ([]byte, error) { return nil, nil }); err == nil || !strings.HasPrefix(err.Error(), "changing: ") {
		t.Errorf("without a folder: %v", err)
	}
}

func TestChangesOfManyProcessesLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			err := words(path, nil).Change(func(now []string) ([]byte, error) {
				return []byte(strings.Join(append(now, fmt.Sprint(i)), " ")), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f := words(path, nil)
	if got, err := f.Current(); err != nil || len(got) != 20 {
		t.Errorf("%q, %v", got, err)
	}
	no := errors.New("no")
	for _, c := range []struct{ says, want error }{{no, no}, {ErrNothing, nil}} {
		if err := f.Change(func([]string) ([]byte, error) { return []byte("x"), c.says }); err != c.want {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
	if got, err := f.Load(); err != nil || len(got) != 20 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOnlyWhatIsUnderstoodWhollyIsDecoded(t *testing.T) {
	type form struct {
		Version int
		A       string
	}
	for text, want := range map[string]string{
		`{"version":1,"a":"x"}` + "\n":          "",
		`{"version":1,"b":"x"}`:                 `json: unknown field "b"`,
		`{"version":2,"b":"x"}`:                 "version 2, and this hermesd knows only version 1",
		`{"a":"x"}`:                             "version 0, and this hermesd knows only version 1",
		`{"version":1}{`:                        "invalid character '{' after top-level value",
		`{"version":1,"a":`:                     "unexpected end of JSON input",
		``:                                      "unexpected end of JSON input",
		`{"version":1,"a":"0123456789-------"}`: "longer than 36 bytes",
	} {
		var f form
		err := Decode([]byte(text), 36, 1, &f)
		if want == "" && (err != nil || f != form{1, "x"}) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %+v, %v; want %s", text, f, err, want)
		}
	}
}
