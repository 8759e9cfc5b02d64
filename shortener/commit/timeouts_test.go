package commit

import (
	"testing"
	"testing/synctest"
	"time"
)

// Creations that begin within the duration sharing have the same context. This context ends createTimeout
// after the first of these creations began.
func TestCreationsStartedTogetherShareTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var creations timeouts
		defer creations.close()
		began := time.Now()
		first := creations.context()
		time.Sleep(sharing - time.Nanosecond)
		if creations.context() != first {
			t.Error("a creation within the duration sharing has another context")
		}
		time.Sleep(time.Nanosecond)
		second := creations.context()
		if second == first {
			t.Error("a creation after the duration sharing has the same context")
		}
		<-first.Done()
		if took := time.Since(began); took != createTimeout {
			t.Errorf("the first context ended after %v, want %v", took, createTimeout)
		}
		if second.Err() != nil {
			t.Error("the second context ended together with the first context")
		}
		<-second.Done()
		if took := time.Since(began); took != sharing+createTimeout {
			t.Errorf("the second context ended after %v, want %v", took, sharing+createTimeout)
		}
	})
}

func TestCloseOfTimeoutsCancelsLatestContext(t *testing.T) {
	t.Parallel()
	var creations timeouts
	latest := creations.context()
	creations.close()
	if latest.Err() == nil {
		t.Error("the latest context continues after close")
	}
}
