//go:build drill

package controls

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestControlsMakeUnitTestsFail builds unit tests of the product with one control at a time, and
// expects that each of these tests fails. It covers protections against faults that no experiment
// injects.
func TestControlsMakeUnitTestsFail(t *testing.T) {
	tests := []struct {
		control string
		pkg     string
		fails   []string
	}{
		{"admin-hosts", "./web/admin", []string{"TestHostCheckRefusesRequestsForOtherHosts"}},
		{"bulk-context", "./web", []string{"TestSlowBulkRequestGetsAllAnswers"}},
		{"bulk-share", "./web", []string{"TestConcurrentBulkRequestsOfOneTokenAreLimited"}},
		{"whole-answer", "./web", []string{"TestBulkAnswerBreaksOffIfClientHalfClosesConnection", "TestBulkRequestEndsAfterFiveMinutes", "TestLinkStreamBreaksOffIfStoreFails"}},
		{"batch-record", "./kgs/redispool", []string{"TestRedisPoolSettleReturnsUnusedKeysOnce"}},
		{"closed-connections", "./web/httpserver", []string{"TestClosedConnectionCountsTowardLimitUntilDataIsReceived"}},
		{"cluster-reload", "./kgs/redispool", []string{"TestRedisPoolSurvivesLossOfClusterMaster"}},
		{"counter-margin", "./kgs/keysource", []string{"TestTicketsRepeatNoNumberAfterRollback", "TestRedisIncrRepeatsNoNumberAfterRollback", "TestTicketSkipAheadKeepsParityAndMargin"}},
		{"counter-mark", "./kgs/keysource", []string{"TestTicketsRepeatNoNumberAfterRollback", "TestTicketsRepeatNoNumberAfterFilesAreRestored", "TestTicketSkipAheadKeepsParityAndMargin", "TestRedisIncrRepeatsNoNumberAfterRollback", "TestRedisIncrSkipsAheadFromNumbersAbovePrecisionOfLua"}},
		{"cut-id", "./kgs/ledger", []string{"TestWitnessDetectsRestoredSQLiteFile"}},
		{"damaged-witness", "./kgs/ledger", []string{"TestMissingOrDamagedWitnessCausesWarning"}},
		{"foreign-numbers", "./kgs/redispool", []string{"TestWorkerRefusesRedisPoolOwnedByOtherDatabase"}},
		{"foreign-tables", "./migrations", []string{"TestMigrationRefusesDatabaseOfAnotherProgram"}},
		{"forwarded-port", "./web/client", []string{"TestClientAddressUsesForwardingHeaderOnlyFromTrustedProxies"}},
		{"full-redis", "./kgs/redispool", []string{"TestSweepAtMemoryLimitAbandonsBatchesOfDeadHolders"}},
		{"header-lines", "./cmd/internal/server", []string{"TestListenersLimitLinesOfEachHeader"}},
		{"http2-streams", "./cmd/internal/server", []string{"TestKeyServiceLimitsRequestsOfHTTP2Connection"}},
		{"give-up", "./kgs/redispool", []string{"TestWorkerGivesUpRangeThatItCannotPush"}},
		{"held-batches", "./kgs/redispool", []string{"TestRedisPoolKeepsBatchesOfEarlierEpoch"}},
		{"key-types", "./kgs/redispool", []string{"TestKeyOfOtherTypeCausesNewEpochOfPool"}},
		{"late-record", "./kgs/redispool", []string{"TestLateRecordOfSettledBatchIsDeleted"}},
		{"later-change", "./shortener/service", []string{"TestCacheKeepsLaterVersionOfChangedLink"}},
		{"later-state", "./shortener/service", []string{"TestCacheKeepsLaterStateWhileReplicaLags"}},
		{"list-epoch", "./kgs/ledger", []string{"TestEachPoolListHasSeparateEpochs"}},
		{"lower-epoch", "./kgs/redispool", []string{"TestRedisPoolKeepsBatchesWhenNewEpochHasLowerNumber"}},
		{"left-log", "./internal/sqlite", []string{"TestOpenKeepsLogOfMissingFile"}},
		{"link-guard", "./internal/sqlite", []string{"TestNoCommitSucceedsWhileSymbolicLinkLeadsToOtherFile"}},
		{"ledger-name", "./kgs/ledger", []string{"TestSuspendedProcessDoesNotChangeNewLedger"}},
		{"machine-fence", "./kgs/keysource", []string{"TestFrozenSnowflakeHolderRepeatsNoNumberOfHeir", "TestNextHolderOfMachineIDRepeatsNoNumberIfClockIsSetBack", "TestSnowflakeNumbersAreUniqueDespiteFaults"}},
		{"measure-now", "./shortener/pgstore", []string{"TestReplicaAnswersIfPrimaryStoppedAfterLastMeasurement"}},
		{"presence", "./kgs/ledger", []string{"TestNextHolderTakesOverRangeOfKilledHolder"}},
		{"qr-share", "./web/internal/qr", []string{"TestQRDrawerServesOtherClientsBesideOneWithManyRequests"}},
		{"redis-replica", "./cmd/internal/server", []string{"TestStartRefusesReadOnlyRedisReplica"}},
		{"refused-epoch", "./kgs/redispool", []string{"TestFillerBeginsNoEpochWhileRedisRefusesToOpenPool", "TestFillerBeginsNoEpochForOutdatedStatus"}},
		{"remote-codes", "./kgs/keyserver", []string{"TestRemoteSupplyRefusesInvalidCodes"}},
		{"replica-ahead", "./shortener/pgstore", []string{"TestLookupsSkipReplicaAheadOfRestoredPrimary", "TestReplicaThatWasAheadIsUnusedUntilItsPositionChanges"}},
		{"replica-timeline", "./shortener/pgstore", []string{"TestLookupsSkipReplicaOfFormerTimeline"}},
		{"same-batch", "./kgs/redispool", []string{"TestSettleOfOldBatchKeepsNewBatchWithSameID"}},
		{"settle-later", "./kgs", []string{"TestSourceTakesBatchesWhileFinishedBatchesCannotBeSettled"}},
		{"slow-part", "./shortener/commit", []string{"TestCreationsMoveToAnotherStorePartIfLinkWasNotWritten", "TestCreationsAvoidSlowPartOfTheStore"}},
		{"small-log", "./internal/sqlite", []string{"TestCheckpointerRestartsWALBeforeDiskIsFull"}},
		{"socket-buffers", "./cmd/internal/program", []string{"TestKernelBuffersOfAConnectionAreBounded"}},
		{"stopped-primary", "./shortener/service", []string{"TestCacheKeepsLaterStateWhilePrimaryDoesNotAnswer"}},
		{"take-rights", "./kgs/redispool", []string{"TestTakeWithoutRightsRemovesNoKeys"}},
		{"ticket-lock", "./kgs/keysource", []string{"TestTicketSkipAheadWaitsForRunningTakes"}},
		{"token-version", "./shortener/token", []string{"TestTokenVersionAfterLostChangeDiffersFromLostVersion", "TestServerReadsTokensAgainAfterLostChangeAndAnotherChange"}},
		{"visit-writer", "./shortener/visits", []string{"TestRepeatedPartOfForgottenWriterCountsOnce"}},
	}
	for _, tt := range tests {
		t.Run(tt.control, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			overlay, err := Overlay(t.Context(), dir, tt.control)
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "unit.test")
			// -w omits the debug information, so that the program links faster.
			mustGo(t.Context(), t, mustRoot(t), "test", "-trimpath", "-ldflags=-w", "-overlay", overlay, "-c", "-o", program, tt.pkg)
			cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.timeout=10m", "-test.run", "^("+strings.Join(tt.fails, "|")+")$")
			cmd.Dir = dir // package rapid writes failing inputs to the working directory
			out, err := cmd.CombinedOutput()
			for _, name := range tt.fails {
				if !strings.Contains(string(out), "--- FAIL: "+name+" (") {
					t.Errorf("%s does not fail without %s: error %v; it said:\n%s", name, tt.control, err, out)
				}
			}
		})
	}
}
