package web

import (
	"time"

	"keypool/web/api"
	"keypool/web/internal/reply"
)

// The types of this file are the answers of the API as a client decodes them.

// answer is a link as every client sees it.
type answer = api.Link

// fullLink is a link as its owner sees it.
type fullLink struct {
	answer
	Title     string    `json:"title,omitempty"`
	Tags      []string  `json:"tags,omitempty"`
	Owner     string    `json:"owner,omitempty"`
	ChangedAt time.Time `json:"changed_at,omitzero"`
	DeletedAt time.Time `json:"deleted_at,omitzero"`
}

// listPage is a page of links.
type listPage struct {
	Links []*fullLink `json:"links"`
	Next  string      `json:"next"`
}

// bulkAnswer is one line of the answer to a bulk request.
type bulkAnswer struct {
	Line    int            `json:"line"`
	Ref     string         `json:"ref"`
	Status  int            `json:"status"`
	Link    *fullLink      `json:"link"`
	Problem *reply.Problem `json:"problem"`
}

// counts is a number of visits.
type counts struct {
	Human int64 `json:"human"`
	Bot   int64 `json:"bot"`
}

// seriesAnswer is the visits of a link.
type seriesAnswer struct {
	Code   string        `json:"code"`
	Total  counts        `json:"total"`
	Series []pointAnswer `json:"series"`
	AsOf   time.Time     `json:"as_of"`
}

type pointAnswer struct {
	At time.Time `json:"at"`
	counts
}

// facetAnswer is the visits of a link by the values of a facet.
type facetAnswer struct {
	Items []valueAnswer `json:"items"`
	Other int64         `json:"other"`
}

type valueAnswer struct {
	Value string `json:"value"`
	counts
}

// topAnswer is the links with the most visits.
type topAnswer struct {
	Items []codeAnswer `json:"items"`
	AsOf  time.Time    `json:"as_of"`
}

type codeAnswer struct {
	Code string `json:"code"`
	counts
}
