package main

import "xlock/internal/lock"

// jobAddress is where the CI job that this process belongs to can be looked at,
// so that the log of a job that waits points at the one that holds the lock. It
// is empty outside of CI, and if the address cannot stand in a record.
func jobAddress(lookup func(string) (string, bool)) string {
	get := func(name string) string {
		value, _ := lookup(name)
		return value
	}
	address := ""
	for _, name := range []string{
		"CI_JOB_URL",          // GitLab
		"BUILD_URL",           // Jenkins
		"BUILDKITE_BUILD_URL", // Buildkite
	} {
		if address == "" {
			address = get(name)
		}
	}
	server, repository, run := get("GITHUB_SERVER_URL"), get("GITHUB_REPOSITORY"), get("GITHUB_RUN_ID")
	if address == "" && server != "" && repository != "" && run != "" {
		address = server + "/" + repository + "/actions/runs/" + run
	}
	if lock.CheckLabel(address) != nil {
		return ""
	}
	return address
}
