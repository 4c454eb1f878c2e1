package credentials

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestKeysOfSearchEnginesAreApartFromThoseOfModels(t *testing.T) {
	file := &File{Path: filepath.Join(t.TempDir(), FileName)}
	for _, p := range []string{"brave", "tavily", "openai"} {
		if err := file.Save(Credential{Provider: p, Key: NewSecret("file-" + p)}); err != nil {
			t.Fatal(err)
		}
	}
	s := Source{File: file, Env: func(name string) string { return map[string]string{"TAVILY_API_KEY": " env-tavily "}[name] }}
	found, err := s.Search()
	if err != nil || len(found) != 2 || found[0].Provider != "brave" || found[0].Key.Reveal() != "file-brave" || found[1].Key.Reveal() != "env-tavily" {
		t.Errorf("%+v, %v", found, err)
	}
	models, err := s.All()
	if err != nil || len(models) != 1 || models[0].Provider != "openai" {
		t.Errorf("models: %+v, %v", models, err)
	}
	if kept := (Source{}).Strip([]string{"BRAVE_API_KEY=x", "TAVILY_API_KEY=y", "A=b"}); strings.Join(kept, " ") != "A=b" {
		t.Errorf("commands see %q", kept)
	}
	if none, err := (Source{}).Search(); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}
