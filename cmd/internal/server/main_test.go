package server

import (
	"context"
	"os"
	"testing"

	"keypool/cmd/internal/app"
	"keypool/internal/testenv"
)

// childVariable makes the test binary the program kgs, for tests that kill it.
const childVariable = "KEYPOOL_TEST_KGS"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(app.KGS(context.Background(), nil, os.Stdout, os.Stderr))
	}
	testenv.Main(m)
}
