package process_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestMigrationsCommands: the latest migration can be rolled back beside a server on request, with an audit entry.
// "migrations up" applies it again.
func TestMigrationsCommands(t *testing.T) {
	t.Parallel()
	in := install(t)
	server := in.serve(t, freeAddress(t))
	type schema struct {
		Version, Known int64
		Migrations     []struct{ AppliedAt *string }
	}
	var before, after schema
	in.ask(t, &before, "migrations", "status", "--json")
	if before.Version == 0 || before.Version != before.Known || len(before.Migrations) != int(before.Known) {
		t.Fatalf("%+v", before)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"migrations", "down", "--reason", "Test"}, "nothing was changed"},
		{[]string{"migrations", "down", "--yes"}, "--reason"},
	} {
		if r := in.cli(t, c.args...); r.code == 0 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%v: %+v", c.args, r)
		}
	}
	if r := in.cli(t, "migrations", "down", "--yes", "--reason", "Test of the way back", "--by", "anna"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	in.ask(t, &after, "migrations", "status", "--json")
	if after.Version != before.Version-1 || after.Migrations[len(after.Migrations)-1].AppliedAt != nil {
		t.Errorf("%+v", after)
	}
	if entries := query(t, in.database(t),
		`SELECT actor || ' ' || subject || ' ' || reason FROM audit_entries WHERE action = 'migrations.down'`); len(
		entries,
	) != 1 || !strings.HasPrefix(entries[0], "cli:anna ") {
		t.Errorf("the audit has %v", entries)
	}
	server.awaitStatus(t, "/readyz", http.StatusOK)
	if r := in.cli(t, "migrations", "up"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	in.ask(t, &after, "migrations", "status", "--json")
	if after.Version != before.Version {
		t.Errorf("%+v", after)
	}
	server.terminate(t)
}

// TestMigrationsAreNotUndoneInLiveByMistake: a live deployment keeps people's data unless told to discard it.
func TestMigrationsAreNotUndoneInLiveByMistake(t *testing.T) {
	t.Parallel()
	in := inLive(t, install(t))
	if r := in.cli(t, "migrate"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	down := []string{"migrations", "down", "--yes", "--reason", "Test"}
	if r := in.cli(t, down...); r.code == 0 || !strings.Contains(r.stderr, "--live") {
		t.Errorf("%+v", r)
	}
	if r := in.cli(t, append(slices.Clone(down), "--live")...); r.code != 0 {
		t.Errorf("%+v", r)
	}
}
