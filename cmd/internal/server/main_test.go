package server

import (
	"context"
	"os"
	"testing"

	"keypool/cmd/internal/app"
	"keypool/internal/testenv"
)

// childVariable is an environment variable that makes the test binary run the program kgs, so that a
// test can kill this process.
const childVariable = "KEYPOOL_TEST_KGS"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(app.KGS(context.Background(), nil, os.Stdout, os.Stderr, nil))
	}
	if os.Getenv(programVariable) != "" {
		os.Exit(Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	testenv.Main(m)
}
