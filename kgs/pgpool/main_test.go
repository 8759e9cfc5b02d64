package pgpool

import (
	"testing"

	"keypool/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
