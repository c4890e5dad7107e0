package main

import (
	"strings"
	"testing"
)

func TestJobAddress(t *testing.T) {
	github := map[string]string{
		"GITHUB_SERVER_URL": "https://github.example", "GITHUB_REPOSITORY": "ada/engine", "GITHUB_RUN_ID": "4",
	}
	without := func(name string) map[string]string {
		rest := map[string]string{}
		for key, value := range github {
			if key != name {
				rest[key] = value
			}
		}
		return rest
	}
	tests := []struct {
		name string
		env  map[string]string
		want string
	}{
		{"no CI", nil, ""},
		{"GitLab", map[string]string{"CI_JOB_URL": "https://gitlab.example/1"}, "https://gitlab.example/1"},
		{"Jenkins", map[string]string{"BUILD_URL": "https://jenkins.example/2"}, "https://jenkins.example/2"},
		{"Buildkite", map[string]string{"BUILDKITE_BUILD_URL": "https://buildkite.example/3"}, "https://buildkite.example/3"},
		{"GitHub", github, "https://github.example/ada/engine/actions/runs/4"},
		{"GitHub without server", without("GITHUB_SERVER_URL"), ""},
		{"GitHub without repository", without("GITHUB_REPOSITORY"), ""},
		{"GitHub without run", without("GITHUB_RUN_ID"), ""},
		{"empty", map[string]string{"CI_JOB_URL": "", "BUILD_URL": "https://jenkins.example/2"}, "https://jenkins.example/2"},
		{"too long", map[string]string{"CI_JOB_URL": strings.Repeat("x", 1025)}, ""},
		{"as long as it may be", map[string]string{"CI_JOB_URL": strings.Repeat("x", 1024)}, strings.Repeat("x", 1024)},
		{"not printable", map[string]string{"CI_JOB_URL": "a\x1b[2J"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := jobAddress(func(name string) (string, bool) {
				value, ok := test.env[name]
				return value, ok
			})
			if got != test.want {
				t.Errorf("jobAddress = %q; want %q", got, test.want)
			}
		})
	}
}
