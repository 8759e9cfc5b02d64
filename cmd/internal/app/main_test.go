package app

import (
	"fmt"
	"os"
	"testing"

	"keypool/internal/testenv"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(bareVariable); addr != "" {
		fmt.Fprintln(os.Stderr, serveBare(addr))
		os.Exit(1)
	}
	testenv.Main(m)
}
