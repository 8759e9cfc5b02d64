package api

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/token"
	"keypool/web/client"
	"keypool/web/internal/media"
	"keypool/web/internal/problem"
	"keypool/web/internal/reply"
)

const (
	maxBulkLines = 10_000
	maxBulkBody  = 16 << 20
	maxRef       = 64 // characters
	// bulkWorkers is how many lines of one request the server handles at the same time.
	bulkWorkers = 128
	// maxBulks is how many bulk requests a server handles at the same time. This limit bounds the memory that the
	// bodies of the requests need. If the client sends the body or reads the answers slowly, its request occupies a slot
	// for minutes. A server handles only one bulk request of a token at a time, so that slow requests of one token cannot
	// occupy all slots.
	maxBulks = 4
	// bulkWait is how long a bulk request waits for its turn. While the request waits, the general time limit for a body
	// (10 s; see httpserver.New) still applies, so bulkWait is shorter.
	bulkWait = 5 * time.Second
	// bulkTimeout is the time limit for the creations and the answer. It is long enough for a request with 10,000 lines
	// in these cases, if no two lines have the same ref or alias:
	//
	//   - The request is new. It has 79 rounds of up to 128 lines. Package commit waits up to 0.9 s for one commit. If
	//     each creation needs one commit, the creations take at most 79 x 0.9 s = 71 s.
	//   - The request is repeated. Each line also needs a look-up of its ref, and four look-ups of one token run at the
	//     same time. If the commits are fast and a look-up takes 0.1 s, the look-ups take 10,000 / 4 x 0.1 s = 250 s.
	//   - Four tokens repeat their requests at the same time. For all tokens together, six look-ups run at the same time.
	//     If the commits are fast and a look-up takes 0.04 s, the look-ups take 40,000 / 6 x 0.04 s = 267 s.
	bulkTimeout = 5 * time.Minute
	// A client must send bulkPart bytes of the body within bulkPartTimeout.
	bulkPart        = 1 << 20
	bulkPartTimeout = 10 * time.Second
)

// bulkLine is one line of a bulk request.
type bulkLine struct {
	Ref *string `json:"ref"`
	creation
}

// bulkAnswer is one line of the answer.
type bulkAnswer struct {
	Line    int            `json:"line"` // number of the line of the request, from 1
	Ref     string         `json:"ref,omitempty"`
	Status  int            `json:"status"`
	Link    *ownedLink     `json:"link,omitempty"`
	Problem *reply.Problem `json:"problem,omitempty"`
}

// createLinks answers POST of /api/links. It creates a link for each line of the body that is not blank. The answer has
// a line for each of these lines, in the same order. The lines are not one transaction: if the creation for one line
// fails, the links of other lines are created nevertheless.
func (a *API) createLinks(c echo.Context) error {
	tok, err := a.bulkToken(c)
	if err != nil {
		return err
	}
	self, err := a.proxies.Self(c)
	if err != nil {
		return err
	}
	if _, err := mediaType(c.Request().Header, media.NDJSON); err != nil {
		return err
	}
	if c.Request().Header["Idempotency-Key"] != nil {
		return problem.Malformed("A request with several links cannot have an Idempotency-Key header. Send ref in each line.")
	}
	end, err := a.bulks.Begin(c.Request().Context(), tok.ID, bulkWait)
	if err != nil {
		return err
	}
	defer end()
	lines, err := readBulk(c)
	if err != nil {
		return err
	}
	return a.sendBulk(c, tok, self, lines)
}

func (a *API) bulkToken(c echo.Context) (token.Token, error) {
	tok, ok, err := client.Identify(c, a.tokens)
	if err == nil && !ok {
		err = problem.Unauthorized("Only clients with a token may create several links at once. " + client.SendBearer)
	}
	if err == nil {
		err = client.Permit(tok, token.ScopeCreate)
	}
	return tok, err
}

// rawLine is a line of a bulk request before the check of its syntax.
type rawLine struct {
	number int    // from 1
	text   []byte // nil if the line has more than maxBody bytes
}

// readBulk reads the lines of the body that are not blank. It fails if the body has too many bytes or lines.
func readBulk(c echo.Context) (lines []rawLine, err error) {
	connection := http.NewResponseController(c.Response())
	next := func() error {
		end := time.Now().Add(bulkPartTimeout)
		// The write deadline is later, so that a refusal can still be sent.
		return errors.Join(connection.SetReadDeadline(end), connection.SetWriteDeadline(end.Add(partTimeout)))
	}
	body := http.MaxBytesReader(c.Response().Writer, c.Request().Body, maxBulkBody)
	r := bufio.NewReaderSize(&pacedReader{r: body, next: next}, maxBody+len("\r\n"))
	for number := 1; ; number++ {
		text, err := readLine(r)
		if errors.Is(err, io.EOF) {
			// After the body, net/http continues to read, to notice when the client leaves. If this read reached a
			// deadline, the context of the request would end, so this statement removes the deadline.
			return lines, connection.SetReadDeadline(time.Time{})
		}
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, problem.TooLarge(fmt.Sprintf("A body may have %d bytes at most.", maxBulkBody))
		}
		if err != nil {
			return nil, problem.Malformed("The body ended before it was complete.")
		}
		if number > maxBulkLines {
			return nil, problem.TooLarge(fmt.Sprintf("A body may have %d lines at most.", maxBulkLines))
		}
		if text == nil || len(text) > 0 {
			lines = append(lines, rawLine{number, text})
		}
	}
}

// readLine reads a line, and removes white space from both ends. The text is nil if the line has more than maxBody bytes,
// and empty but not nil for a blank line. The buffer of r must have room for maxBody bytes and a line break.
func readLine(r *bufio.Reader) (text []byte, err error) {
	line, more, err := r.ReadLine()
	if !more && len(line) > maxBody {
		return nil, err
	}
	if err != nil || !more {
		return append([]byte{}, bytes.TrimSpace(line)...), err
	}
	for more && err == nil {
		_, more, err = r.ReadLine()
	}
	if errors.Is(err, io.EOF) { // the body ends with a line that fills the buffer; the next call returns io.EOF
		err = nil
	}
	return nil, err
}

// pacedReader calls the function next before each part of bulkPart bytes. This function sets the deadline for the part.
type pacedReader struct {
	r    io.Reader
	next func() error
	left int // bytes until the next part
}

// Read implements [io.Reader].
func (p *pacedReader) Read(b []byte) (int, error) {
	if p.left <= 0 {
		if err := p.next(); err != nil {
			return 0, err
		}
		p.left = bulkPart
	}
	n, err := p.r.Read(b)
	p.left -= n
	return n, err
}

// parsedLine is a line of a bulk request after the check of its syntax.
type parsedLine struct {
	number int // from 1
	bulkLine
	err error
}

// parseBulk parses lines.
func parseBulk(lines []rawLine) []parsedLine {
	parsed := make([]parsedLine, len(lines))
	for i, line := range lines {
		parsed[i].number = line.number
		if line.text == nil {
			parsed[i].err = problem.TooLarge(fmt.Sprintf("A line may have %d bytes at most.", maxBody))
		} else {
			parsed[i].bulkLine, parsed[i].err = parseBulkLine(line.text)
		}
	}
	return parsed
}

func parseBulkLine(line []byte) (bulkLine, error) {
	var l *bulkLine // nil if the JSON text is null
	if err := decode(line, &l); err != nil {
		return bulkLine{}, err
	}
	if l == nil {
		return bulkLine{}, errNoObject()
	}
	if l.Ref != nil {
		if n := utf8.RuneCountInString(*l.Ref); n < 1 || n > maxRef || strings.ContainsFunc(*l.Ref, unicode.IsControl) {
			return bulkLine{}, &shortener.InvalidError{Field: "ref", Reason: fmt.Sprintf("must have 1 to %d characters and no control characters", maxRef)}
		}
	}
	return *l, nil
}

// independent returns how many lines, counted from the first, the server can handle at the same time. No two of these
// lines have the same ref or the same alias. If two lines have the same ref or alias, the link of the earlier line must
// be created first.
func independent(lines []parsedLine) int {
	refs, aliases := make(map[string]bool), make(map[string]bool)
	for i := range lines {
		l := &lines[i]
		if l.Ref != nil && refs[*l.Ref] || l.Alias != nil && aliases[*l.Alias] {
			return i
		}
		if l.Ref != nil {
			refs[*l.Ref] = true
		}
		if l.Alias != nil {
			aliases[*l.Alias] = true
		}
	}
	return len(lines)
}

// sendBulk creates the links, several lines at a time, and sends the answers in the order of the lines. If the client
// leaves or the time is up, sendBulk handles no further lines and fails. If the token is revoked or renewed, or expires,
// the well-formed lines that remain get status 401.
func (a *API) sendBulk(c echo.Context, tok token.Token, self destination.Origin, lines []rawLine) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), bulkTimeout)
	defer cancel()
	out := newParts(c, media.NDJSON)
	a.limits.AnnounceToken(c, tok)
	answers := newJSONLines(out)
	var parsed []parsedLine // at most bulkWorkers lines, because a parsed line can be much larger than its text
	var refused error       // why the token was not accepted for the previous part
	for len(lines)+len(parsed) > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w: %d lines of a bulk request remain: %w", reply.ErrNotSent, len(lines)+len(parsed), err)
		}
		more := min(len(lines), bulkWorkers-len(parsed))
		parsed, lines = append(parsed, parseBulk(lines[:more])...), lines[more:]
		n := independent(parsed)
		part := parsed[:n]
		parsed = parsed[n:]
		refused = a.recheck(c, refused)
		for i := range part { // in the order of the lines, so that the first lines get what is left of the limit
			part[i].err = cmp.Or(part[i].err, refused)
			if part[i].err == nil {
				part[i].err = a.limits.SpendLine(tok)
			}
		}
		results := make([]bulkAnswer, n)
		var creations sync.WaitGroup
		for i := range part {
			creations.Go(func() { results[i] = a.createLine(c, tok, self, &part[i]) })
		}
		creations.Wait()
		for i := range results {
			if err := answers.Encode(results[i]); err != nil {
				return err
			}
		}
		if err := out.send(); err != nil {
			return err
		}
	}
	return nil
}

// recheck checks the token of a bulk request again. It returns nil if the token is accepted, and otherwise an error with
// the reason. The parameter last is the result of the previous check. If that check refused the token, recheck returns
// last without another check, because the check of a token with an old secret waits for the next poll of the tokens. If
// the previous check could not decide, because the tokens were unavailable, recheck checks the token again.
func (a *API) recheck(c echo.Context, last error) error {
	if _, unavailable := errors.AsType[*shortener.UnavailableError](last); last != nil && !unavailable {
		return last
	}
	_, err := a.bulkToken(c)
	return err
}

// createLine creates the link of one line. It answers as POST /shorten would answer, except that the status for a repeated ref
// is 200 and not 201. A panic becomes a problem of this line, because an unrecovered panic in a goroutine ends the program.
func (a *API) createLine(c echo.Context, tok token.Token, self destination.Origin, line *parsedLine) bulkAnswer {
	answer := bulkAnswer{Line: line.number}
	if line.Ref != nil {
		answer.Ref = *line.Ref
	}
	link, status, err := a.tryLine(c, tok, self, line)
	if err != nil {
		pr := problem.Of(err)
		a.problems.Report(err, pr, c)
		answer.Status, answer.Problem = pr.Status, &pr
		return answer
	}
	answer.Status, answer.Link = status, a.ownedLink(link, self)
	return answer
}

func (a *API) tryLine(c echo.Context, tok token.Token, self destination.Origin, line *parsedLine) (link shortener.Link, status int, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = problem.Panicked(v)
		}
	}()
	if line.err != nil {
		return link, 0, line.err
	}
	key := ""
	if line.Ref != nil {
		key = *line.Ref
	}
	r := line.request()
	r.Self, r.Owner = self, tok.ID
	link, existing, replayed, err := a.createIdempotent(c, r, key)
	if existing || replayed {
		return link, http.StatusOK, err
	}
	return link, http.StatusCreated, a.suggest(c, r, err)
}
