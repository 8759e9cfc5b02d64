package refill

import (
	"testing"

	"keypool/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
