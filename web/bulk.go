package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"keypool/shortener"
	"keypool/shortener/destination"
	"keypool/shortener/token"
	"keypool/web/internal/reply"
)

const (
	maxBulkLines = 10_000
	maxBulkBody  = 16 << 20
	maxRef       = 64 // characters
	// bulkWorkers is how many lines of one request are created at the same time.
	bulkWorkers = 128
	// maxBulks is how many bulk requests a server handles at the same time. It bounds their memory.
	maxBulks = 4
	// bulkTimeout is the time limit for the body, and then for the creations and the answer.
	bulkTimeout = time.Minute
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
	Link    *fullLink      `json:"link,omitempty"`
	Problem *reply.Problem `json:"problem,omitempty"`
}

// createLinks answers POST of /api/links. It creates a link for each line of the body, and answers with a line for
// each line, in their order. Each link is durable by itself.
func (p *public) createLinks(c echo.Context) error {
	tok, err := p.bulkToken(c)
	if err != nil {
		return err
	}
	self, err := p.self(c)
	if err != nil {
		return err
	}
	select {
	case p.bulks <- struct{}{}:
		defer func() { <-p.bulks }()
	default:
		return &shortener.UnavailableError{RetryAfter: time.Second, Err: errTooManyBulks}
	}
	lines, err := readBulk(c)
	if err != nil {
		return err
	}
	return sendBulk(c, parseBulk(lines), func(line *parsedLine) bulkAnswer { return p.createLine(c, tok, self, line) })
}

var errTooManyBulks = errors.New("the server handles the maximum number of bulk requests")

func (p *public) bulkToken(c echo.Context) (token.Token, error) {
	tok, ok, err := p.identify(c)
	if err == nil && !ok {
		err = unauthorized("Only clients with a token may create several links at once. " + sendBearer)
	}
	if err == nil {
		err = permit(tok, token.ScopeCreate)
	}
	return tok, err
}

// readBulk reads the lines of the body. It refuses a body that is too large as a whole.
func readBulk(c echo.Context) (lines [][]byte, err error) {
	r := c.Request()
	media, _, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
	if err != nil || media != mediaNDJSON {
		return nil, unsupported("Send " + mediaNDJSON + ", and name the media type in the Content-Type header.")
	}
	connection := http.NewResponseController(c.Response())
	deadline := time.Now().Add(bulkTimeout)
	if err := errors.Join(connection.SetReadDeadline(deadline), connection.SetWriteDeadline(deadline.Add(bulkTimeout))); err != nil {
		return nil, err
	}
	scanner := bufio.NewScanner(http.MaxBytesReader(c.Response().Writer, r.Body, maxBulkBody))
	scanner.Buffer(nil, maxBulkBody)
	for scanner.Scan() {
		if len(lines) == maxBulkLines {
			return nil, tooLarge(fmt.Sprintf("A body may have %d lines at most.", maxBulkLines))
		}
		lines = append(lines, bytes.Clone(scanner.Bytes()))
	}
	if err := scanner.Err(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, tooLarge(fmt.Sprintf("A body may have %d bytes at most.", maxBulkBody))
		}
		return nil, malformed("The body ended before it was complete.")
	}
	return lines, nil
}

func tooLarge(detail string) error {
	return &detailedError{&http.MaxBytesError{Limit: maxBulkBody}, detail}
}

// parsedLine is a line of a bulk request after the check of its syntax.
type parsedLine struct {
	number int // from 1
	bulkLine
	err error
}

// parseBulk parses the lines that are not blank.
func parseBulk(lines [][]byte) (parsed []parsedLine) {
	for i, line := range lines {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		p := parsedLine{number: i + 1}
		p.bulkLine, p.err = parseBulkLine(line)
		parsed = append(parsed, p)
	}
	return parsed
}

func parseBulkLine(line []byte) (bulkLine, error) {
	var l *bulkLine // nil if the JSON text is null
	if err := json.Unmarshal(line, &l, json.RejectUnknownMembers(true)); err != nil {
		return bulkLine{}, objectError(line, err)
	}
	if l == nil {
		return bulkLine{}, errNoObject()
	}
	if l.Ref != nil {
		if n := utf8.RuneCountInString(*l.Ref); n < 1 || n > maxRef {
			return bulkLine{}, &shortener.InvalidError{Field: "ref", Reason: fmt.Sprintf("must be 1 to %d characters long", maxRef)}
		}
	}
	return *l, nil
}

// independent returns how many of the first lines can be created at the same time. No two of them have the same ref or the
// same alias, because the first line of the request must win.
func independent(lines []parsedLine) int {
	refs, aliases := make(map[string]bool), make(map[string]bool)
	for i := range lines {
		l := &lines[i]
		if i == bulkWorkers || l.Ref != nil && refs[*l.Ref] || l.Alias != nil && aliases[*l.Alias] {
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

// sendBulk calls create for each line, for several lines at a time, and sends the answers in the order of the lines. If the
// client leaves, it handles no further lines.
func sendBulk(c echo.Context, lines []parsedLine, create func(line *parsedLine) bulkAnswer) error {
	w := c.Response()
	w.Header().Set(echo.HeaderContentType, mediaNDJSON)
	w.Header().Set(echo.HeaderXContentTypeOptions, "nosniff")
	answers := newJSONLines(w)
	for len(lines) > 0 && c.Request().Context().Err() == nil {
		n := independent(lines)
		part := lines[:n]
		lines = lines[n:]
		results := make([]bulkAnswer, n)
		var creations sync.WaitGroup
		for i := range part {
			creations.Go(func() { results[i] = create(&part[i]) })
		}
		creations.Wait()
		for i := range results {
			if err := answers.Encode(results[i]); err != nil {
				return fmt.Errorf("%w: %w", reply.ErrNotSent, err)
			}
		}
		w.Flush()
	}
	return nil
}

// createLine creates the link of one line. It answers as POST /shorten would answer.
func (p *public) createLine(c echo.Context, tok token.Token, self destination.Origin, line *parsedLine) bulkAnswer {
	a := bulkAnswer{Line: line.number}
	if line.Ref != nil {
		a.Ref = *line.Ref
	}
	link, status, err := p.tryLine(c, tok, self, line)
	if err != nil {
		problem := problemOf(err)
		p.problems.report(err, problem, c)
		a.Status, a.Problem = problem.Status, &problem
		return a
	}
	a.Status, a.Link = status, p.fullLink(link, self)
	return a
}

func (p *public) tryLine(c echo.Context, tok token.Token, self destination.Origin, line *parsedLine) (link shortener.Link, status int, err error) {
	if line.err != nil {
		return link, 0, line.err
	}
	if err := p.limits.spendLine(tok); err != nil {
		return link, 0, err
	}
	key := ""
	if line.Ref != nil {
		key = *line.Ref
	}
	r := line.request()
	r.Self, r.Owner = self, tok.ID
	link, existing, replayed, err := p.createOnce(c, r, key)
	if existing || replayed {
		return link, http.StatusOK, err
	}
	return link, http.StatusCreated, err
}
