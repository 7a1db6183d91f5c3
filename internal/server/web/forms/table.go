package forms

import (
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/webhook"
)

// Label returns the label of a code in the catalogue, or the code itself if it has none.
func Label(entries []catalog.Entry, code string) string {
	for _, e := range entries {
		if e.Code == code {
			return e.Label
		}
	}
	return code
}

// RoleCell shows the name of a member's role.
func RoleCell(r portal.Role) Cell { return Worded("dev.role." + string(r)) }

// Page is a page made of blocks.
type Page struct {
	Heading string
	Name    string // name of the subject, after the heading; empty if the ID suffices
	Code    string // ID, after the heading
	Search  []Field
	Blocks  []Block
	Older   string
}

// Block is a part of a page: facts, a table, or text.
type Block struct {
	Title, Alert, Hint string // text keys
	Args               []any  // of Alert
	Ask                bool   // tells the reader whom to contact about Alert
	Facts              []Line
	Head               []string // text keys
	Rows               [][]Cell
	Pre                string // text that is shown as it is
	Table              bool   // has rows, or says that there is none
	Empty              string // key of what an empty table says; "ops.none" if it is empty
	Begin              string // key of the link that adds the first row, named by an empty table
	Links              []Action
}

// Line is a value with the text key of its label.
type Line struct {
	Label string
	Cell  Cell
}

// Cell is one value: literal text, the text of a key, or a time.
type Cell struct {
	Text, Key string
	Args      []any
	URL       string
	Code      bool
	Also      string // a code after the text
	More      *Cell  // a cell after the text
	At        *time.Time
	Exact     bool // shows At to the second
	Day       bool // shows only the day of At
}

// Action is a link to an action.
type Action struct {
	URL, Key string
	Danger   bool
}

// Plain is literal text.
func Plain(s string) Cell { return Cell{Text: s} }

// Code is an ID or another code.
func Code(s string) Cell { return Cell{Text: s, Code: s != ""} }

// Linked is an ID that links to its page.
func Linked(url, s string) Cell {
	return Cell{Text: s, URL: url, Code: true}
}

// Coded shows the text of a stored code, "" for none, followed by the codes in also.
func Coded(s string, also ...string) Cell {
	if s == "" {
		return Code(strings.Join(also, " "))
	}
	return Cell{Key: "ops.code." + s, Also: strings.Join(also, " ")}
}

// RateCell shows the share of successful deliveries. It is empty if there were none.
func RateCell(h webhook.Health) Cell {
	if h.Delivered+h.Failed == 0 {
		return Cell{}
	}
	return Worded("ops.percent", h.Rate())
}

// Worded shows the text of a key.
func Worded(key string, args ...any) Cell { return Cell{Key: key, Args: args} }

// At shows a time to the minute.
func At(t time.Time) Cell { return Cell{At: &t} }

// Exactly shows a time to the second.
func Exactly(t time.Time) Cell { return Cell{At: &t, Exact: true} }

// MaybeAt is [At], or empty for nil.
func MaybeAt(t *time.Time) Cell { return Cell{At: t} }

// HealthSpan is the period over which the success of webhooks is counted.
const HealthSpan = 24 * time.Hour

// Param returns a query parameter without surrounding whitespace.
func Param(c echo.Context, name string) string { return strings.TrimSpace(c.QueryParam(name)) }

// Older returns the URL of the same list after an item.
func Older(c echo.Context, after string) string {
	q := c.Request().URL.Query()
	q.Set("after", after)
	q.Del("lang")
	q.Del("done")
	return c.Request().URL.Path + "?" + q.Encode()
}

// YesNo shows the text of key if the condition holds, and that of otherwise if not.
func YesNo(key, otherwise string, condition bool) Cell {
	if condition {
		return Worded(key)
	}
	return Worded(otherwise)
}

// DropEmpty removes the facts without a value.
func (v Page) DropEmpty() {
	for i := range v.Blocks {
		v.Blocks[i].Facts = slices.DeleteFunc(v.Blocks[i].Facts, func(f Line) bool {
			return f.Cell.Text == "" && f.Cell.Key == "" && f.Cell.At == nil
		})
	}
}

// LineOf creates a line from a value and the text key of its label.
func LineOf(label string, cell Cell) Line { return Line{label, cell} }
