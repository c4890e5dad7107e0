package main

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"xlock/internal/testenv"
)

// inspectSchema is docs/inspect.schema.json, against which the scripts' command
// json holds all that inspect prints.
var inspectSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	return c.Compile(filepath.Join(testenv.Root(), "docs", "inspect.schema.json"))
})

func validate(ts *testscript.TestScript, line string) {
	schema, err := inspectSchema()
	ts.Check(err)
	object, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	ts.Check(err)
	if err := schema.Validate(object); err != nil {
		ts.Fatalf("%s is not as docs/inspect.schema.json says: %v", line, err)
	}
}

// The schema refuses what inspect does not print.
func TestSchemaRefuses(t *testing.T) {
	schema, err := inspectSchema()
	if err != nil {
		t.Fatal(err)
	}
	const good = `{"lock":"l","state":"held","reason":"owner","holders":[{"pid":1,"source":"fdinfo"}],"waiters":[],"warnings":[]}`
	for name, change := range map[string][2]string{
		"nothing":                 {"", ""},
		"an unknown field":        {`"lock"`, `"x":1,"lock"`},
		"an unknown state":        {`"held"`, `"taken"`},
		"no reason":               {`"reason":"owner",`, ``},
		"an unknown source":       {"fdinfo", "guess"},
		"a field of a holder":     {`"pid":1`, `"pid":1,"x":1`},
		"a waiter without number": {`"waiters":[]`, `"waiters":[{}]`},
	} {
		object, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.Replace(good, change[0], change[1], 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(object); (err == nil) != (name == "nothing") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
