package main

import (
	"testing"

	"github.com/hermesd/hermesd/transport/link/linktest"
)

func TestMain(m *testing.M) {
	linktest.Main()
	m.Run()
}
