package daemontest

import (
	"os"
	"testing"
)

// CIEnv is set where nothing may be skipped.
const CIEnv = "HERMESD_CI"

// Skip ends a test for want of something outside the repository. Where CIEnv
// is set that is a failure: there everything has been installed.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(CIEnv) != "" {
		t.Fatalf(CIEnv+" is set and nothing may be skipped: "+format, args...)
	}
	t.Skipf("skipped: "+format, args...)
}

// NeedSchemas loads the official schemas or skips the test.
func NeedSchemas(t testing.TB) *Schemas {
	t.Helper()
	dir, err := SchemaDir()
	if err != nil {
		Skip(t, "schema validation (%v)", err)
	}
	s, err := LoadSchemas(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
