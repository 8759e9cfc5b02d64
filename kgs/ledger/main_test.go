package ledger_test

import (
	"testing"

	"keypool/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
