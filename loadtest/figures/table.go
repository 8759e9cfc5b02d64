package figures

import (
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/dustin/go-humanize"

	"keypool/kgs/codespace"
)

// Group contains the figures about one subject.
type Group struct {
	Title   string
	Figures []Figure
}

// The constants of the formulas.
const (
	rate     = 1000        // creations per second
	capacity = 100_000_000 // keys in a full pool
	servers  = 20
	batch    = 100 // keys

	hour  = 3600.0
	year  = 365 * 24 * hour
	trial = 100 // links to one URL
)

const (
	attemptsTable = "Load test, 2026-11-22, `make loadtest`"
	fullRun       = "Full load test, 2026-11-22, `make loadtest LOADTEST=--full`"
)

// Groups returns all figures.
func Groups() []Group {
	return []Group{codes(), fallback(), pool(), schemes()}
}

func codes() Group {
	size6, size7 := codespace.Size(6), codespace.Size(7)
	bytes6, bytes64 := 6*size6, 6*power(64, 6)
	example := section("capacity.md", "Example")
	return Group{"Codes", []Figure{
		{Subject: "1,000,000 in base 62, with the digits 0-9A-Za-z", Formula: "4 x 62^3 + 12 x 62^2 + 9 x 62 + 2, padded to 6",
			Value: "`" + codespace.Plain().Code(6, 1_000_000) + "`", Elsewhere: "`004C9M`", Here: []Reference{test("kgs/codespace/space_test.go", "TestPlainSpaceWritesNumbersInBase62")}},
		{Subject: "codes of 6 characters", Formula: "62^6", Value: humanize.Comma(size6), Elsewhere: "56 billion", Here: []Reference{test("kgs/codespace/space_test.go", "TestSizeReturnsNumberOfCodesOfLength"), example}},
		{Subject: "codes of 7 characters", Formula: "62^7", Value: humanize.Comma(size7), Here: []Reference{example}},
		{Subject: "codes of 6 characters of base64url", Formula: "64^6", Value: humanize.Comma(power(64, 6)), Here: []Reference{test("kgs/keysource/hash_test.go", "TestHashGivesKnownAnswers")}},
		{Subject: "table of all codes of 6 characters", Formula: "6 x 62^6 bytes", Value: gigabytes(bytes6), Here: []Reference{example}},
		{Subject: "the same with 64 characters", Formula: "6 x 64^6 bytes", Value: gigabytes(bytes64), Here: []Reference{example}},
		{Subject: "codes of 6 characters at 1,000/s last", Formula: "62^6 / 1,000", Value: days(float64(size6) / rate), Here: []Reference{example}},
		{Subject: "then those of 7 characters last until", Formula: "(62^6 + 62^7) / 1,000", Value: years(float64(size6+size7) / rate), Here: []Reference{example}},
	}}
}

func fallback() Group {
	figure := func(links float64, words, elsewhere, claimName string) Figure {
		f := links / float64(codespace.Size(6))
		return Figure{
			Subject: "random codes with " + words + " links", Formula: "f = links / 62^6; 1/(1-f)",
			Value: fmt.Sprintf("f = %s %%, %s attempts", short(100*f), fourDigits(1/(1-f))), Elsewhere: elsewhere,
			Here: []Reference{claim("space/fallback", claimName), section("benchmarks.md", attemptsTable)},
		}
	}
	return Group{"Random codes in a space that fills up", []Figure{
		figure(10e6, "10 million", "", "attempts with 0.02 % of codes in use"),
		figure(40e9, "40 billion", "71 %", "attempts with 71 % of codes in use"),
		figure(53e9, "53 billion", "94.6 %, 18 attempts", "attempts with 94.6 % of codes in use"),
	}}
}

func pool() Group {
	lasts := claim("supply/drain", "pool empty as predicted")
	local := claim("outage/redis", "local keys last as predicted")
	return Group{"Pool at 1,000 creations per second", []Figure{
		{Subject: "100,000,000 keys last", Formula: "100,000,000 / 1,000", Value: hours(capacity / rate), Here: []Reference{lasts, section("benchmarks.md", fullRun)}},
		{Subject: "20,000,000 keys last (20 %, restart)", Formula: "20,000,000 / 1,000", Value: hours(capacity / 5 / rate), Elsewhere: "5.5 h", Here: []Reference{lasts, claim("supply/drain", "restart signalled")}},
		{Subject: "10,000,000 keys last (10 %, page)", Formula: "10,000,000 / 1,000", Value: hours(capacity / 10 / rate), Elsewhere: "2.7 h", Here: []Reference{lasts, claim("supply/drain", "page signalled")}},
		{Subject: "5,000,000 keys last", Formula: "5,000,000 / 1,000", Value: minutes(capacity / 20 / rate), Here: []Reference{lasts, section("benchmarks.md", fullRun)}},
		{Subject: "20 servers with 100 keys each last without Redis", Formula: "20 x 100 / 1,000", Value: seconds(servers * batch / rate), Here: []Reference{claim("outage/redis", "local keys last at least a batch")}},
		{Subject: "the same with a spare batch, when half of the other batch is left on average", Formula: "20 x (100 + 50) / 1,000", Value: seconds(servers * (batch + batch/2.0) / rate),
			Here: []Reference{local, section("benchmarks.md", attemptsTable)}},
	}}
}

func schemes() Group {
	collision := new(big.Float).Quo(big.NewFloat(1e30/2), new(big.Float).SetMantExp(big.NewFloat(1), 128))
	p, _ := collision.Float64()
	flake := func(name string) []Reference { return []Reference{test("kgs/keysource/snowflake_test.go", name)} }
	layout, end := flake("TestSnowflakeNumberContainsTimeMachineIDAndSequence"), flake("TestSnowflakeFailsAfterLastNumber")
	return Group{"Other ways to get codes", []Figure{
		{Subject: "41 bits of milliseconds in a Snowflake number last", Formula: "2^41 ms", Value: years(math.Exp2(41) / 1000), Elsewhere: "1 million years", Here: end},
		{Subject: "10 bits of machine ids", Formula: "2^10", Value: humanize.Comma(1 << 10), Here: layout},
		{Subject: "12 bits of sequence numbers", Formula: "2^12 per ms", Value: humanize.Comma(1<<12) + " per ms", Here: flake("TestSnowflakeWaitsWhenSequenceIsExhausted")},
		{Subject: "base 62 digits of 63 bits", Formula: "⌈63 / log2 62⌉", Value: digits(63), Here: layout},
		{Subject: "base 62 digits of 128 bits", Formula: "⌈128 / log2 62⌉", Value: digits(128), Here: []Reference{test("kgs/keysource/uuid_test.go", "TestUUIDGivesKnownAnswers")}},
		{Subject: "any two of 10^15 UUIDs of 128 random bits are equal", Formula: "(10^15)^2 / (2 x 2^128)", Value: fmt.Sprintf("probability %.2g", p), Here: []Reference{test("kgs/keysource/uuid_test.go", "TestEveryBitOfUUIDVaries")}},
		{Subject: "attempts per link for 100 links to one URL, if codes are hashes", Formula: "(1 + 100) / 2", Value: short((1 + trial) / 2.0),
			Here: []Reference{claim("compare/space", "attempts of a hash for the same URL")}},
	}}
}

func power(base, exponent int64) int64 {
	return new(big.Int).Exp(big.NewInt(base), big.NewInt(exponent), nil).Int64()
}

// short formats a number with up to three significant digits.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// fourDigits formats a number of attempts, which is at least 1. A number below 2 has four decimals.
func fourDigits(v float64) string {
	if v < 2 {
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
	return short(v)
}

func digits(bits float64) string { return strconv.Itoa(int(math.Ceil(bits / math.Log2(62)))) }
func gigabytes(n int64) string {
	return strconv.FormatInt(int64(math.Round(float64(n)/1e9)), 10) + " GB"
}
func seconds(v float64) string { return short(v) + " s" }
func minutes(v float64) string { return strconv.FormatFloat(v/60, 'f', 0, 64) + " min" }
func hours(v float64) string   { return strconv.FormatFloat(v/hour, 'f', 1, 64) + " h" }
func days(v float64) string    { return strconv.FormatFloat(v/24/hour, 'f', 0, 64) + " days" }
func years(inSeconds float64) string {
	return strconv.FormatFloat(inSeconds/year, 'f', 1, 64) + " years"
}
