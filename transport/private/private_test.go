package private

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestReplaceLeavesTheNewFileAloneAndPrivate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, text := range []string{"one", "", "three"} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
		info, err := os.Stat(path)
		if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if all, _ := os.ReadDir(dir); len(all) != 1 {
			t.Errorf("left over: %v", all)
		}
	}
}

func TestAFailedReplaceChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder") // a folder with something in it is replaced by no file
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new")); err == nil {
		t.Error("no error")
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("left over: %v", all)
	}
	if err := Replace(filepath.Join(dir, "gone", "f"), nil); err == nil {
		t.Error("no error without a folder")
	}
}
